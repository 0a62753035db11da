import io
import zipfile

import numpy as np
import pytest
import torch

from datasets.makers import noise
from evenhand import datasets
from evenhand.errors import InputError

LABELS = np.array([0, 1] * 5)


def load(path, **arrays):
    np.savez(path / "mine.npz", **arrays)
    return datasets.load(f"npz:{path / 'mine.npz'}")


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (noise(4, 5), noise(4, 5)),
        (noise(4, 6, 7), noise(4, 6, 7)[:, None]),
        (noise(4, 1, 6, 7), noise(4, 1, 6, 7)),
        (noise(4, 3, 6, 7), noise(4, 3, 6, 7)),
        (noise(4, 6, 7, 3), noise(4, 6, 7, 3).transpose(0, 3, 1, 2)),
        (noise(4, 6, 7, 1), noise(4, 6, 7, 1).transpose(0, 3, 1, 2)),
        (noise(4, 3, 6, 3), noise(4, 3, 6, 3)),
        (noise(4, 512, 4, 4), noise(4, 512, 4, 4)),
        (noise(4, 2, 8, 4), noise(4, 2, 8, 4)),
        (noise(4, 3, 6, 7) / 255, (noise(4, 3, 6, 7) / 255).astype(np.float32)),
        ((noise(4, 6, 7, 3) / 255).astype(np.float16), (noise(4, 6, 7, 3) / 255).astype("f2").transpose(0, 3, 1, 2)),
        (noise(4, 5) * -1000.0, (noise(4, 5) * -1000.0).astype(np.float32)),
        (noise(4, 5).astype(np.int64) * 1000, (noise(4, 5).astype(np.int64) * 1000).astype(np.float32)),
        (noise(4, 5).astype(">f8"), noise(4, 5).astype(np.float32)),
        (noise(4, 3, 6, 7).astype(np.int64) % 2, (noise(4, 3, 6, 7) % 2).astype(np.float32)),
        (np.asfortranarray(noise(4, 5)), noise(4, 5)),
        (np.asfortranarray(noise(4, 3, 6, 7)), noise(4, 3, 6, 7)),
    ],
)
@pytest.mark.parametrize(
    "names", [("x_train", "y_train", "x_test", "y_test"), ("train_x", "train_y", "test_x", "test_y")]
)
def test_samples_of_every_shape(tmp_path, x, expected, names):
    dataset = load(tmp_path, **dict(zip(names, (x, [0, 1, 0, 1], x[:2], [1, 0]), strict=True)))
    assert dataset.train_x.dtype == (torch.uint8 if x.dtype == np.uint8 else torch.float32)
    assert np.array_equal(dataset.train_x, expected)
    assert np.array_equal(dataset.test_x, expected[:2])
    assert dataset.train_y.tolist() == [0, 1, 0, 1]
    assert dataset.test_y.tolist() == [1, 0]
    assert dataset.train_y.dtype == torch.int64


def test_a_digest_is_of_the_values_and_not_of_their_order_on_disk(tmp_path):
    x = noise(4, 5)
    digests = set()
    for made in (x, np.asfortranarray(x)):
        digests.add(load(tmp_path, x_train=made, y_train=[0, 1, 0, 1], x_test=made, y_test=[0, 1, 0, 1]).digest)
    digests.add(load(tmp_path, x_train=x + 1, y_train=[0, 1, 0, 1], x_test=x, y_test=[0, 1, 0, 1]).digest)
    assert len(digests) == 2


def test_every_fifth_sample_of_a_class_is_held_out(tmp_path):
    y = np.array([0] * 7 + [1] * 2 + [0] * 4)
    dataset = load(tmp_path, x=np.arange(13)[:, None], y=y)
    assert dataset.test_x.flatten().tolist() == [0, 5, 7, 12]  # of class 0 the first, the sixth, the eleventh
    assert dataset.train_x.flatten().tolist() == [1, 2, 3, 4, 6, 8, 9, 10, 11]
    assert dataset.test_y.tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize(
    ("y", "classes", "numbers"),
    [
        (["b", "a", "b", "cc"], ("a", "b", "cc"), [1, 0, 1, 2]),
        ([7, -3, 7, 1000], ("-3", "7", "1000"), [1, 0, 1, 2]),
        (np.array([7, 3, 7, 9], np.uint64), ("3", "7", "9"), [1, 0, 1, 2]),
        ([True, False, True, False], ("False", "True"), [1, 0, 1, 0]),
        ([[7], [3], [7], [9]], ("3", "7", "9"), [1, 0, 1, 2]),
    ],
)
def test_labels_of_every_kind(tmp_path, y, classes, numbers):
    dataset = load(tmp_path, x_train=noise(4, 2), y_train=y, x_test=noise(4, 2), y_test=y)
    assert dataset.classes == classes
    assert dataset.train_y.tolist() == dataset.test_y.tolist() == numbers


def test_names_of_classes(tmp_path):
    x = noise(10, 2)
    assert load(tmp_path, x=x, y=LABELS, classes=["cat", "dog"]).classes == ("cat", "dog")
    with pytest.raises(InputError, match=r"Every class of .*mine\.npz must have training samples\. 'eel' has none\.$"):
        load(tmp_path, x=x, y=LABELS, classes=["cat", "dog", "eel"])
    for y, wrong in ((LABELS + 1, 2), (LABELS - 1, -1)):
        sentence = (
            rf"labels of .*mine\.npz must be numbers from 0 to 1, as there are 2 named classes\. Got {wrong} instead"
        )
        with pytest.raises(InputError, match=sentence):
            load(tmp_path, x=x, y=y, classes=["cat", "dog"])


def test_labels_of_two_kinds(tmp_path):
    with pytest.raises(InputError, match=r"Every class of .* must have training samples\. 'a' and 1 more have none\.$"):
        load(
            tmp_path,
            x_train=noise(4, 2),
            y_train=[0, 1, 0, 1],
            x_test=noise(2, 2),
            y_test=["a", "b"],
            classes=["a", "b"],
        )
    unsigned = np.array([0, 1], np.uint64)
    dataset = load(tmp_path, x_train=noise(4, 2), y_train=[0, 1, 0, 1], x_test=noise(2, 2), y_test=unsigned)
    assert dataset.classes == ("0", "1")


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"x": noise(10, 2), "y": LABELS[:9]}, r"must have the shape \(10,\), one per sample\. Got \(9,\) instead"),
        ({"x": noise(10, 2), "y": np.eye(10)}, r"must have the shape \(10,\), one per sample\. Got \(10, 10\) instead"),
        ({"x": noise(10, 2), "y": LABELS / 2}, r"must be whole numbers or strings\. Got 'float64' instead"),
        (
            {"x": noise(10, 2), "y": LABELS.astype(np.uint64) + (1 << 63)},
            r"must be below 2\^63, or strings\. Got 9223372036854775809 instead",
        ),
        (
            {"x": noise(10, 8, 8, 4), "y": LABELS},
            r"have one or three channels if these come last\. Got \(10, 8, 8, 4\) instead\. Of RGBA images, keep x\[\.",
        ),
        ({"x": noise(10, 2), "y": LABELS * 0}, r"mine\.npz must have at least two classes\. It has 1"),
        ({"x": noise(10), "y": LABELS}, r"must be vectors \(n, d\) or images \(n, c, h, w\)\. Got \(10,\) instead"),
        ({"x": np.array(1), "y": LABELS}, r"must be vectors \(n, d\) or images"),
        ({"x": noise(10, 2, 2, 2, 2), "y": LABELS}, r"must be vectors \(n, d\) or images"),
        ({"x": noise(0, 2), "y": LABELS[:0]}, r"must be vectors \(n, d\) or images \(n, c, h, w\)\. Got \(0, 2\)"),
        ({"x": noise(10, 2).astype("S3"), "y": LABELS}, r"must be uint8 or floats\. Got '\|S3' instead"),
        ({"x": noise(10, 2) * np.nan, "y": LABELS}, r"must be finite\. Some are not"),
        ({"x": noise(10, 2) * 1e300, "y": LABELS}, r"must be finite\. Some are not"),
        ({"x": noise(10, 3, 4, 4) / 100, "y": LABELS}, r"The float images of .* must be in \[0, 1\]\. Got '0 to 2\.5"),
        (
            {"x": noise(10, 3, 4, 4).astype(int), "y": LABELS},
            r"The integer images of .* must be uint8\. Got 'int64, \d to 255'",
        ),
        (
            {"x": noise(10, 4, 4).astype("i2") - 9, "y": LABELS},
            r"The integer images of .* must be uint8\. Got 'int16, -9 to 240'",
        ),
        ({"x": noise(10, 2)}, r"must hold x_train, y_train, x_test, y_test, or x and y\. It holds x\."),
        ({}, r"must hold x_train, y_train, x_test, y_test, or x and y\. It holds nothing\."),
        (
            {"x_train": noise(10, 2), "y_train": LABELS, "x_test": noise(10, 3), "y_test": LABELS},
            r"must be like the training samples, uint8 \(2,\)\. Got 'uint8 \(3,\)' instead",
        ),
        (
            {"x_train": noise(10, 2), "y_train": LABELS, "x_test": noise(10, 2) / 1, "y_test": LABELS},
            r"must be like the training samples, uint8 \(2,\)\. Got 'float32 \(2,\)' instead",
        ),
        ({"x": noise(3, 2), "y": [0, 0, 1]}, r"Every class of .* must have test samples\. '1' has none"),
    ],
)
def test_arrays_that_cannot_be_used(tmp_path, arrays, sentence):
    with pytest.raises(InputError, match=sentence):
        load(tmp_path, **arrays)


def test_arrays_with_code_in_them(tmp_path):
    with pytest.raises(InputError, match=r"mine\.npz is damaged or holds something other than arrays"):
        load(tmp_path, x=np.array([print, 1], object), y=[0, 1])


def test_a_truncated_file(tmp_path):
    np.savez(tmp_path / "mine.npz", x=noise(10, 2), y=LABELS)
    whole = (tmp_path / "mine.npz").read_bytes()
    for size in (0, 4, 100, len(whole) - 1):
        (tmp_path / "mine.npz").write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"mine\.npz is damaged or holds something other than arrays"):
            datasets.load(f"npz:{tmp_path / 'mine.npz'}")


@pytest.mark.parametrize("content", [b"hello", b"", b"\x93NUMPY\x01\x00\x10\x00{'descr': '<x9'}\n"])
def test_members_that_are_no_arrays(tmp_path, content):
    with zipfile.ZipFile(tmp_path / "mine.npz", "w") as archive:
        archive.writestr("x.npy", content)
        archive.writestr("y", b"hello")
    with pytest.raises(InputError, match=r"mine\.npz is damaged or holds something other than arrays"):
        datasets.load(f"npz:{tmp_path / 'mine.npz'}")


def test_one_array_with_a_zip_behind_it(tmp_path):
    file = io.BytesIO()
    np.save(file, noise(3, 3))
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("x.npy", b"")
    (tmp_path / "mine.npz").write_bytes(file.getvalue())
    with pytest.raises(InputError, match=r"mine\.npz is damaged or holds something other than arrays"):
        datasets.load(f"npz:{tmp_path / 'mine.npz'}")


def test_arrays_that_claim_to_be_huge(tmp_path, monkeypatch):
    monkeypatch.setattr("evenhand.datasets.arrays.MAX_BYTES", 1000)
    with pytest.raises(InputError, match=r"is too large: one of its arrays has more than 16 GB"):
        load(tmp_path, x=noise(10, 1000), y=LABELS)


def test_a_file_that_is_not_there(tmp_path):
    for path in (tmp_path / "nothing.npz", tmp_path):
        with pytest.raises(InputError, match=r"There is no file "):
            datasets.load(f"npz:{path}")


class Pairs(torch.utils.data.Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, number):
        return self.x[number], self.y[number]


IMAGES = noise(10, 3, 4, 5)


@pytest.mark.parametrize(
    "pair",
    [
        (IMAGES, LABELS),
        [IMAGES, LABELS],
        (torch.from_numpy(IMAGES), torch.from_numpy(LABELS)),
        (list(IMAGES), LABELS.tolist()),
        Pairs(IMAGES, LABELS),
        Pairs(torch.from_numpy(IMAGES), torch.from_numpy(LABELS)),
        Pairs(IMAGES.transpose(0, 2, 3, 1), LABELS.tolist()),
        torch.utils.data.TensorDataset(torch.from_numpy(IMAGES), torch.from_numpy(LABELS)),
    ],
)
def test_pairs_in_python(pair):
    dataset = datasets.dataset(pair, name="mine", classes=["cat", "dog"])
    held = [0, 1]
    assert np.array_equal(dataset.test_x, IMAGES[held])
    assert np.array_equal(dataset.train_x, IMAGES[2:])
    assert dataset.train_y.tolist() == LABELS[2:].tolist()
    assert dataset.classes == ("cat", "dog")
    assert dataset.name == "mine"
    both = datasets.dataset(pair, pair)
    assert np.array_equal(both.train_x, both.test_x)
    assert len(both.train_y) == 10


def test_tensors_with_gradients():
    x = torch.rand(10, 4, requires_grad=True)
    dataset = datasets.dataset((x, LABELS))
    assert torch.equal(dataset.train_x, x[2:])
    assert not dataset.train_x.requires_grad


def test_texts_as_labels_in_python():
    dataset = datasets.dataset(Pairs(noise(4, 2), ["b", "a", "b", "a"]))
    assert dataset.classes == ("a", "b")
    assert dataset.train_y.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (3, r"A dataset must be a pair \(x, y\) or a map-style dataset of such pairs\. Got 3 instead"),
        (([[1.0], [1.0, 2.0]], [0, 1]), "Samples and labels must form arrays of one shape"),
        (Pairs([[1.0], [1.0, 2.0]], [0, 1]), "Samples and labels must form arrays of one shape"),
        (Pairs(torch.ones(2, 1).bfloat16(), [0, 1]), "Samples and labels must form arrays"),
        (torch.ones(5, 3), r"A map-style dataset must return a pair \(x, y\) for each index\. Got tensor"),
        (
            Pairs([], []),
            r"The samples of arrays must be vectors \(n, d\) or images \(n, c, h, w\)\. Got \(0,\) instead",
        ),
        (
            (noise(10, 2), LABELS[:9]),
            r"The labels of arrays must have the shape \(10,\), one per sample\. Got \(9,\) instead",
        ),
        ((noise(10, 2), LABELS * 0), r"arrays must have at least two classes\. It has 1"),
    ],
)
def test_what_makes_no_dataset(given, sentence):
    with pytest.raises(InputError, match=sentence):
        datasets.dataset(given)
