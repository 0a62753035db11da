import numpy as np
import pytest
from PIL import Image

from datasets import makers
from datasets.makers import encode, flat, noise, write
from evenhand import datasets
from evenhand.errors import InputError


def greys(x):
    return x[:, 0, 0, 0].tolist()


@pytest.mark.parametrize(
    ("train", "test"),
    [
        *(("train", name) for name in ("test", "testing", "val", "valid", "validation")),
        ("Train", "Test"),
        ("TRAINING", "testing"),
    ],
)
def test_a_split_of_its_own(tmp_path, train, test):
    pictures = noise(6, 8, 9, 3)
    names = [f"{train}/b/2.png", f"{train}/a/1.png", f"{train}/b/1.png"]
    names += [f"{test}/b/9.png", f"{test}/a/8.png", f"{train}/a/0.png"]
    path = write(tmp_path / "mine", {name: encode(x) for name, x in zip(names, pictures, strict=True)})
    dataset = datasets.load(f"folder:{path}")
    assert dataset.classes == ("a", "b")
    assert np.array_equal(dataset.train_x, pictures[[5, 1, 2, 0]].transpose(0, 3, 1, 2))
    assert np.array_equal(dataset.test_x, pictures[[4, 3]].transpose(0, 3, 1, 2))
    assert dataset.train_y.tolist() == [0, 0, 1, 1]
    assert dataset.test_y.tolist() == [0, 1]
    assert dataset.name == f"folder:{path}"


def test_a_split_without_its_other_half_is_no_class(tmp_path):
    files = {
        f"{split}/{name}/{number}.png": flat(1) for split in ("Train", "other") for name in "ab" for number in "01"
    }
    path = write(tmp_path / "mine", files)
    sentence = rf"{path}/Train holds folders instead of images, but there is no {path}/test\. Add it, or use folder:"
    with pytest.raises(InputError, match=sentence):
        datasets.load(f"folder:{path}")
    assert datasets.load(f"folder:{path}/Train").classes == ("a", "b")


@pytest.mark.parametrize("first", ["Training_set", "val"])
def test_a_test_split_without_one_for_training_is_no_class(tmp_path, first):
    files = {f"{split}/{name}/{number}.png": flat(1) for split in (first, "test") for name in "ab" for number in "01"}
    path = write(tmp_path / "mine", files)
    with pytest.raises(
        InputError, match=rf"{path}/\w+ holds folders instead of images, but there is no {path}/train\."
    ):
        datasets.load(f"folder:{path}")


def test_a_class_may_be_called_train(tmp_path):
    files = {f"{name}/{number}.png": flat(1) for name in ("plane", "train") for number in range(2)}
    path = write(tmp_path / "mine", {**files, "train/old/0.png": flat(1)})
    assert datasets.load(f"folder:{path}").classes == ("plane", "train")


def test_without_a_split_every_fifth_image_of_a_class_is_for_testing(tmp_path):
    files = {f"a/{number:02}.png": flat(number) for number in range(11)}
    files |= {f"b/{number:02}.png": flat(100 + number) for number in range(2)}
    dataset = datasets.load(f"folder:{write(tmp_path / 'mine', files)}")
    assert greys(dataset.test_x) == [0, 5, 10, 100]
    assert greys(dataset.train_x) == [1, 2, 3, 4, 6, 7, 8, 9, 101]
    assert dataset.train_y.tolist() == [0] * 8 + [1]
    assert dataset.test_y.tolist() == [0, 0, 0, 1]


def test_all_endings_in_any_case_at_any_depth_and_nothing_else(tmp_path):
    kinds = {"png": "PNG", "JPG": "JPEG", "jpeg": "JPEG", "webp": "WEBP", "BMP": "BMP", "gif": "GIF", "tif": "TIFF"}
    kinds |= {"Tiff": "TIFF", "ppm": "PPM", "pgm": "PPM"}
    files = {f"a/deep/{ending}.{ending}": flat(40, kind=kind) for ending, kind in kinds.items()}
    files |= {f"b/{number}.png": flat(80) for number in range(2)}
    files |= {"a/.hidden.png": b"", "a/notes.txt": b"", ".git/x.png": b"", "b/.trash/x.png": b"", "README.md": b""}
    dataset = datasets.load(f"folder:{write(tmp_path / 'mine', files)}")
    assert dataset.classes == ("a", "b")
    assert len(dataset.train_y) + len(dataset.test_y) == len(kinds) + 2
    assert sorted({*greys(dataset.train_x), *greys(dataset.test_x)}) == [40, 80]


def test_all_are_brought_to_a_size(tmp_path):
    """The shorter side is scaled and the longer one cut: of three squares in a row the middle one stays."""
    red, green, blue = [np.full((20, 20, 3), 0, np.uint8) for _ in range(3)]
    red[..., 0], green[..., 1], blue[..., 2] = 200, 150, 100
    row, column = np.concatenate([red, green, blue], 1), np.concatenate([red, green, blue], 0)
    files = {"a/0.png": encode(row), "a/1.png": encode(column), "b/0.png": encode(blue), "b/1.png": encode(red)}
    dataset = datasets.load(f"folder:{write(tmp_path / 'mine', files)}", size=20)
    assert dataset.shape == (3, 20, 20)
    assert np.array_equal(dataset.test_x, np.stack([green, blue]).transpose(0, 3, 1, 2))
    assert np.array_equal(dataset.train_x, np.stack([green, red]).transpose(0, 3, 1, 2))
    small = datasets.load(f"folder:{tmp_path / 'mine'}", size=5)
    assert small.shape == (3, 5, 5)
    assert small.test_x[1].flatten(1).tolist() == [[0] * 25, [0] * 25, [100] * 25]


def test_images_are_turned_upright(tmp_path):
    picture = noise(8, 8, 3)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter, clockwise
    files = {f"{name}/{number}.png": encode(picture, exif=exif) for name in "ab" for number in range(2)}
    dataset = datasets.load(f"folder:{write(tmp_path / 'mine', files)}")
    assert np.array_equal(dataset.train_x[0], np.rot90(picture, -1).transpose(2, 0, 1))


def test_skipped_images_are_listed(tmp_path):
    files = {f"{name}/{number}.png": flat(10 * number + (name == "b")) for name in "ab" for number in range(6)}
    files |= {"a/2.png": b"no image", "b/5.png": files["b/5.png"][:40], "b/3.png": flat(9, side=3)}
    path = write(tmp_path / "mine", files)
    dataset = datasets.load(f"folder:{path}", skip_bad=True)
    assert greys(dataset.train_x) == [10, 30, 40, 11, 21, 41]
    assert dataset.train_y.tolist() == [0, 0, 0, 1, 1, 1]
    assert greys(dataset.test_x) == [0, 50, 1]
    assert dataset.test_y.tolist() == [0, 0, 1]
    assert [note.split(":")[0] for note in dataset.notes] == [
        f"Skipped {path}/a/2.png",
        f"Skipped {path}/b/3.png",
        f"Skipped {path}/b/5.png",
    ]
    assert datasets.load(f"folder:{path}", skip_bad=True).notes == dataset.notes


def test_a_corrupt_image(tmp_path):
    files = {f"{name}/{number}.png": flat(number) for name in "ab" for number in range(5)}
    path = write(tmp_path / "mine", {**files, "b/3.png": encode(noise(8, 8, 3))[:-60], "b/4.png": b""})
    with pytest.raises(InputError, match=rf"{path}/b/3\.png and 1 more cannot be used: It is not a complete image "):
        datasets.load(f"folder:{path}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "mine"]


def test_images_of_several_sizes_are_told_what_to_do(tmp_path):
    files = {f"{name}/{number}.png": flat(number, side=8 + (name == "b")) for name in "ab" for number in range(3)}
    path = write(tmp_path / "mine", files)
    with pytest.raises(InputError) as caught:
        datasets.load(f"folder:{path}")
    sizes = "It has 9 x 9 pixels, but the first image has 8 x 8. Use --size to resize all images."
    assert str(caught.value) == f"{path}/b/1.png and 1 more cannot be used: {sizes}"
    assert datasets.load(f"folder:{path}", size=4).classes == ("a", "b")


def test_what_macos_adds_is_no_class(tmp_path):
    files = {f"{name}/{number}.png": flat(number) for name in "ab" for number in range(2)}
    files |= {"__MACOSX/a/._0.png": b"junk", "__MACOSX/a/0.png": flat(9), "a/__MACOSX/0.png": flat(9)}
    dataset = datasets.load(f"folder:{write(tmp_path / 'mine', files)}")
    assert dataset.classes == ("a", "b")
    assert greys(dataset.train_x) == [1, 1]


def test_no_image_that_is_good(tmp_path):
    path = write(tmp_path / "mine", {f"{name}/{number}.png": b"" for name in "ab" for number in range(2)})
    with pytest.raises(InputError, match=r"a/1\.png and 1 more cannot be used: .* No image is left\."):
        datasets.load(f"folder:{path}", skip_bad=True)


def test_a_class_of_which_nothing_is_left(tmp_path):
    files = {"a/0.png": flat(0), "a/1.png": flat(1), "b/0.png": flat(2), "b/1.png": b"", "c/0.png": flat(1)}
    path = write(tmp_path / "mine", {**files, "c/1.png": flat(1)})
    with pytest.raises(InputError, match=r"Every class of .*mine must have training samples\. 'b' has none"):
        datasets.load(f"folder:{path}", skip_bad=True)


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"a/0.png": b"", "b/x.txt": b""}, r"The folder of the class 'b' in .*mine holds no images"),
        ({"train/a/0.png": b"", "train/b/1.txt": b"", "test/a/0.png": b""}, r"'b' in .*mine/train holds no images"),
        ({"a/0.png": b"", "a/1.png": b""}, r"mine must hold a subfolder for each of at least two classes\. Found 1\."),
        ({"0.png": b"", "1.png": b""}, r"mine must hold a subfolder for each of at least two classes\. Found 0\."),
        (
            {"a/0.png": b"", "a/1.png": b"", "b/0.png": b""},
            r"The class 'b' in .*mine must have at least two images, one for testing",
        ),
        ({"a/x.txt": b""}, r"There are no images in .*mine\. It must hold one subfolder per class"),
        (
            {f"{name}.png": b"" for name in ("train/a/0", "train/b/0", "val/a/0", "val/c/0")},
            r"The class 'b' is in only one of .*mine/train and .*mine/val",
        ),
        (
            {f"{name}.png": b"" for name in ("train/a/0", "train/b/0", "training/a/0", "training/b/0", "test/a/0")},
            r"mine/train and .*mine/training are both named like the same split",
        ),
    ],
)
def test_folders_that_cannot_be_used(tmp_path, files, sentence):
    with pytest.raises(InputError, match=sentence):
        datasets.load(f"folder:{write(tmp_path / 'mine', files)}")


def test_images_of_different_sizes(tmp_path):
    files = {"a/0.png": flat(0), "a/1.png": flat(1), "b/0.png": flat(2), "b/1.png": flat(3, side=7)}
    path = write(tmp_path / "mine", files)
    with pytest.raises(
        InputError, match=r"b/1\.png cannot be used: It has 7 x 7 pixels, but the first image has 8 x 8\. Use --size"
    ):
        datasets.load(f"folder:{path}")


def test_splits_of_different_sizes(tmp_path):
    files = {f"train/{name}/0.png": flat(0) for name in "ab"} | {f"test/{name}/0.png": flat(0, side=7) for name in "ab"}
    path = write(tmp_path / "mine", files)
    with pytest.raises(
        InputError,
        match=r"The test samples of .* must be like its training samples, 3 x 8 x 8\. Got '3 x 7 x 7' instead",
    ):
        datasets.load(f"folder:{path}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "mine"]
    assert datasets.load(f"folder:{path}", size=7).shape == (3, 7, 7)


@pytest.mark.parametrize("size", [0, -1, 5000, 2.0, True])
def test_a_size_that_cannot_be(tmp_path, size):
    with pytest.raises(InputError, match=r"The 'size' of images must be a whole number in \[1, 4096\]"):
        datasets.load(f"folder:{tmp_path}", size=size)


def test_names_that_lead_nowhere(tmp_path):
    with pytest.raises(InputError, match=r"There is no folder .*nowhere\."):
        datasets.load(f"folder:{tmp_path / 'nowhere'}")
    with pytest.raises(InputError, match=r"There is no folder ~nobody-at-all/x\."):
        datasets.load("folder:~nobody-at-all/x")
    with pytest.raises(InputError, match="cannot be read: File name too long"):
        datasets.load(f"folder:{tmp_path / ('x' * 300)}")
    with pytest.raises(InputError, match=r"There is no dataset called 'folder:'"):
        datasets.load("folder:")


def test_size_and_skip_bad_apply_only_to_custom_images():
    for options in ({"size": 8}, {"skip_bad": True}):
        with pytest.raises(InputError, match=r"--size and --skip-bad apply only to custom images.*not to cifar10"):
            datasets.load("cifar10", **options)


def test_the_name_of_a_class_can_be_printed(tmp_path):
    for name in ("caf\udce9", "tea"):
        write(tmp_path / "mine" / name, {f"{number}.png": flat(number) for number in range(2)})
    assert datasets.load(f"folder:{tmp_path / 'mine'}").classes == ("caf?", "tea")


def test_folders_that_are_links(tmp_path):
    real = write(tmp_path / "real", {f"{name}/{number}.png": flat(number) for name in "ab" for number in range(5)})
    (tmp_path / "mine").mkdir()
    for name in "ab":
        (tmp_path / "mine" / name).symlink_to(real / name)
    (real / "a" / "up").symlink_to(real / "a")  # without an end
    dataset = datasets.load(f"folder:{tmp_path / 'mine'}")
    assert greys(dataset.train_x) == [1, 2, 3, 4] * 2
    (real / "a" / "1.png").write_bytes(flat(77))
    assert greys(datasets.load(f"folder:{tmp_path / 'mine'}").train_x) == [77, 2, 3, 4, 1, 2, 3, 4]


def test_a_link_that_leads_nowhere(tmp_path):
    path = write(tmp_path / "mine", {f"{name}/{number}.png": flat(number) for name in "ab" for number in range(2)})
    (path / "a" / "lost.png").symlink_to(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"a/lost\.png cannot be read: No such file or directory"):
        datasets.load(f"folder:{path}")


def test_decoding_reports_its_progress(tmp_path):
    path = write(tmp_path / "mine", {f"{name}/{number:03}.png": flat(1) for name in "ab" for number in range(130)})
    told = []
    datasets.load(f"folder:{path}", progress=lambda *news: told.append(news))
    assert told == [("decoding", 100, 208), ("decoding", 200, 208), ("decoding", 208, 208), ("decoding", 52, 52)]


def test_a_relative_path_is_the_same_folder(tmp_path, monkeypatch):
    write(tmp_path / "mine", {f"{name}/{number}.png": flat(number) for name in "ab" for number in range(2)})
    monkeypatch.chdir(tmp_path)
    datasets.load("folder:mine")
    made = makers.left(tmp_path / ".evenhand")
    datasets.load(f"folder:{tmp_path / 'mine'}")
    assert makers.left(tmp_path / ".evenhand") == made
