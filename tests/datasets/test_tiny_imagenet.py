import pytest

from datasets import makers
from datasets.makers import below, quiet, write, zipped
from evenhand.datasets.tiny_imagenet import TINY_IMAGENET
from evenhand.errors import InputError


def put(data, packed, files):
    if packed:
        zipped(data / "tiny-imagenet-200.zip", below("tiny-imagenet-200", files))
    else:
        write(data / "tiny-imagenet-200", files)


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
def test_it_holds_exactly_what_was_written(data, packed):
    put(data, packed, makers.tiny())
    dataset = TINY_IMAGENET.load(quiet)
    assert dataset.classes == ("goldfish", "salamander")
    assert dataset.shape == (3, 64, 64)
    assert (dataset.train_x == dataset.train_x[:, :1, :1, :1]).all()
    assert dataset.train_x[:, 0, 0, 0].tolist() == [0, 4, 8, 40, 44, 48]
    assert dataset.train_y.tolist() == [0, 0, 0, 1, 1, 1]
    assert dataset.test_x[:, 0, 0, 0].tolist() == [100, 104, 140, 144]
    assert dataset.test_y.tolist() == [0, 0, 1, 1]


def test_folder_and_zip_give_one_digest(data):
    put(data, True, makers.tiny())
    packed = TINY_IMAGENET.load(quiet).digest
    put(data, False, makers.tiny())
    assert TINY_IMAGENET.find().is_dir()
    assert TINY_IMAGENET.load(quiet).digest == packed


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"wnids.txt": None},
            r"is incomplete: it has no 'wnids\.txt'\. Remove .*, then run evenhand data fetch tinyimagenet\.$",
        ),
        (
            {"val/val_annotations.txt": b"val_0.JPEG\tn77\n"},
            r"has a line without a known class: \['val_0\.JPEG', 'n77'\]",
        ),
        ({"val/val_annotations.txt": b"val_0.JPEG\n"}, r"has a line without a known class: \['val_0\.JPEG'\]"),
        (
            {"val/images/val_1.JPEG": None},
            r"is incomplete: it has no 'val/images/val_1\.JPEG'\. Remove .*200(\.zip)?, then run",
        ),
        ({"train/n09/images/a.JPEG": b""}, r"wnids\.txt does not name the class of train/n09/images/a\.JPEG"),
        ({"wnids.txt": b"n01\nn02\nn03\n"}, r"Every class of tinyimagenet must have training samples\. 'n03' has none"),
        ({"wnids.txt": b"\xff"}, r"wnids\.txt is damaged: it is not a text file"),
        (
            {"train/n01/images/n01_1.JPEG": b"no image"},
            r"n01_1\.JPEG cannot be used: It is not a complete image \(\w+\)\. Remove .*200(\.zip)?, then run evenhand",
        ),
        ({"train/stray.JPEG": b""}, r"wnids\.txt does not name the class of train/stray\.JPEG"),
    ],
)
def test_what_is_not_right(data, packed, change, sentence):
    files = {name: content for name, content in {**makers.tiny(), **change}.items() if content is not None}
    put(data, packed, files)
    with pytest.raises(InputError, match=sentence):
        TINY_IMAGENET.load(quiet)
    assert not [name for name in makers.left(data) if ".evenhand" in name]


def test_no_training_images(data):
    put(data, False, {name: content for name, content in makers.tiny().items() if not name.startswith("train")})
    with pytest.raises(InputError, match="is incomplete: it has no images in 'train'"):
        TINY_IMAGENET.load(quiet)


def test_a_truncated_zip(data):
    put(data, True, makers.tiny())
    path = data / "tiny-imagenet-200.zip"
    whole = path.read_bytes()
    for size in (0, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=rf"{path} is damaged or incomplete.*\. Remove {path}, then run evenhand"):
            TINY_IMAGENET.load(quiet)
