import numpy as np
import pytest
import torch

from datasets.makers import noise
from evenhand.datasets import Dataset
from evenhand.datasets.contact_sheet import draw_contact_sheet, write_contact_sheet
from evenhand.errors import RunError


@pytest.mark.parametrize(("channels", "shown"), [(1, [0, 0, 0]), (2, [0, 0, 0]), (3, [0, 1, 2]), (4, [0, 1, 2])])
@pytest.mark.parametrize("kind", ["bytes", "floats"])
def test_any_number_of_channels_makes_a_picture(channels, shown, kind):
    x, y = noise(2, channels, 48, 48), torch.arange(2)
    given = torch.from_numpy(x if kind == "bytes" else x.astype(np.float32) / 255)
    page = np.asarray(draw_contact_sheet(Dataset("mine", given, y, given, y, ("a", "b")), 1))
    for image, top in zip(x, (40, 90), strict=True):
        expected = image[shown].transpose(1, 2, 0)
        rows = page[top : top + 48]
        assert any(np.array_equal(rows[:, left : left + 48], expected) for left in range(rows.shape[1] - 47))


@pytest.mark.parametrize(
    ("name", "reason"), [("none/x.png", "No such file or directory"), ("x.nothing", "unknown file extension: .nothing")]
)
def test_a_sheet_that_cannot_be_written_says_why_once(tmp_path, name, reason):
    x, y = torch.from_numpy(noise(2, 1, 4, 4)), torch.arange(2)
    with pytest.raises(RunError) as caught:
        write_contact_sheet(Dataset("mine", x, y, x, y, ("a", "b")), tmp_path / name)
    assert str(caught.value) == f"{tmp_path / name} cannot be written: {reason}."
