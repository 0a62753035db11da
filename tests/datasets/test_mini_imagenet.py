import pickle

import numpy as np
import pytest

from datasets import makers
from datasets.makers import flat, noise, quiet, write
from evenhand.datasets import mini_imagenet
from evenhand.datasets.mini_imagenet import MINI_IMAGENET
from evenhand.errors import InputError


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Let a class have 3 + 2 images instead of 500 + 100, and let there be four instead of 100."""
    for name, value in {"TRAIN": 3, "TEST": 2, "CLASSES": 4}.items():
        monkeypatch.setattr(mini_imagenet, name, value)


def greys(dataset):
    """The grey of each image, which must be flat: training, test."""
    for x in (dataset.train_x, dataset.test_x):
        assert x.shape[1:] == (3, 84, 84)
        assert (x == x[:, :1, :1, :1]).all()
    return dataset.train_x[:, 0, 0, 0].tolist(), dataset.test_x[:, 0, 0, 0].tolist()


def images(classes, count=5, start=0):
    """Flat images of classes: the k-th one of the n-th class has the grey 20 n + k."""
    return {
        f"{name}/{number}.png": flat(start + 20 * place + number, 84)
        for place, name in enumerate(classes)
        for number in range(count)
    }


def below(**splits):
    return {f"{split}/{name}": content for split, files in splits.items() for name, content in files.items()}


def test_folders_of_classes_are_cut(data):
    write(data / "mini-imagenet", images("abcd", count=6))
    dataset = MINI_IMAGENET.load(quiet)
    assert dataset.classes == ("a", "b", "c", "d")
    assert greys(dataset) == (
        [20 * c + i for c in range(4) for i in range(3)],
        [20 * c + i for c in range(4) for i in (4, 5)],  # the last two of those that are not for training
    )
    assert dataset.train_y.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert dataset.test_y.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert dataset.notes == ()


def test_splits_with_the_same_classes_stay_as_they_are(data):
    files = below(train=images("abcd", 4), test=images("abcd", 1, start=10), val=images("abcd", 1, start=15))
    write(data / "miniimagenet", files)
    dataset = MINI_IMAGENET.load(quiet)
    assert greys(dataset) == ([20 * c + i for c in range(4) for i in range(4)], [20 * c + 10 for c in range(4)])
    assert dataset.notes == (
        "This MiniImageNet has 4 classes with 16 + 4 images instead of the usual 4 classes with 12 + 8 images.",
    )


def test_splits_of_classes_are_put_together(data):
    files = below(train=images("da"), val=images("bf", start=40), test=images("ce", start=80))
    write(data / "mini_imagenet", files)
    dataset = MINI_IMAGENET.load(quiet)
    assert dataset.classes == ("a", "b", "c", "d", "e", "f")
    assert greys(dataset)[1] == [23, 24, 43, 44, 83, 84, 3, 4, 103, 104, 63, 64]
    assert dataset.notes == (
        "This MiniImageNet has 6 classes with 18 + 12 images instead of the usual 4 classes with 12 + 8 images.",
    )


def test_a_class_in_two_splits(data):
    write(data / "mini-imagenet", below(train=images("ab"), val=images("bc"), test=images("de")))
    with pytest.raises(InputError, match=r"The class 'b' is in .*mini-imagenet/val and in another split"):
        MINI_IMAGENET.load(quiet)


def test_too_few_images_of_a_class(data):
    write(data / "mini-imagenet", {**images("ab"), **images("c", count=3)})
    with pytest.raises(InputError, match=r"must have more than 3 images, the last ones for testing\. 'c' has 3\."):
        MINI_IMAGENET.load(quiet)


def stack(*greys):
    return np.stack([np.full((84, 84, 3), grey, np.uint8) for grey in greys])


@pytest.mark.parametrize("rows", [list, np.array])
@pytest.mark.parametrize("protocol", range(6))
def test_pickles_with_a_class_dict(data, rows, protocol):
    whole = noise(10, 84, 84, 3)
    tables = {
        "train": {"image_data": whole, "class_dict": {"n1": rows([0, 2, 4, 6, 8]), "n0": rows([1, 3, 5, 7, 9])}},
        "val": {"image_data": stack(*range(5)), "class_dict": {"n2": rows(range(5))}},
        "test": {"image_data": stack(*range(10, 15)), "class_dict": {"n3": rows([4, 3, 2, 1, 0])}},
    }
    files = {f"mini-imagenet-cache-{split}.pkl": pickle.dumps(table, protocol) for split, table in tables.items()}
    write(data / "mini-imagenet", files)
    dataset = MINI_IMAGENET.load(quiet)
    assert dataset.classes == ("n0", "n1", "n2", "n3")
    assert np.array_equal(dataset.train_x[:6], whole[[1, 3, 5, 0, 2, 4]].transpose(0, 3, 1, 2))
    assert np.array_equal(dataset.test_x[:4], whole[[7, 9, 6, 8]].transpose(0, 3, 1, 2))
    assert dataset.train_x[6:, 0, 0, 0].tolist() == [0, 1, 2, 14, 13, 12]
    assert dataset.test_x[4:, 0, 0, 0].tolist() == [3, 4, 11, 10]
    assert dataset.train_y.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert dataset.notes == ()


@pytest.mark.parametrize("labels", [list, np.array])
def test_pickles_with_labels_of_python_2(data, labels):
    table = {"data": stack(*range(12)), "labels": labels([0, 1] * 6), "catname2label": {"n0": 0, "n1": 1}}
    write(data / "mini-imagenet", {"miniImageNet_category_split_train_phase_train.pickle": makers.old_pickle(table)})
    dataset = MINI_IMAGENET.load(quiet)
    assert dataset.classes == ("0", "1")
    assert greys(dataset) == ([0, 2, 4, 1, 3, 5], [8, 10, 9, 11])


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"class_dict": {"a": [0]}}, r"must hold images as uint8 of shape"),
        ({"data": stack(1).astype(float), "labels": [0]}, r"must hold images as uint8 of shape"),
        ({"data": noise(1, 32, 32, 3), "labels": [0]}, r"must hold images as uint8 of shape"),
        ({"data": stack(1, 2)}, "must give the classes of its images in 'class_dict' or 'labels'"),
        ({"data": stack(1, 2), "labels": [0]}, "must give the classes of its images"),
        ({"data": stack(1, 2), "labels": np.array(1)}, "must give the classes of its images"),
        ({"data": stack(1, 2), "class_dict": {"a": [0, 2]}}, "lists rows of the class 'a' that do not exist"),
        ({"data": stack(1, 2), "class_dict": {"a": [0, -1]}}, "lists rows of the class 'a' that do not exist"),
        ({"data": stack(1, 2), "class_dict": {"a": [0, None]}}, "lists rows of the class 'a' that do not exist"),
        ({"data": stack(1, 2), "class_dict": {"a": [0.5]}}, "lists rows of the class 'a' that do not exist"),
        ({"data": stack(1, 2), "class_dict": {"a": 7}}, "lists rows of the class 'a' that do not exist"),
        ({"data": stack(1, 2), "class_dict": {"a": np.array(1)}}, "lists rows of the class 'a' that do not exist"),
        ({"data": stack(1), "class_dict": {}}, r"miniimagenet must have at least two classes\. It has 0"),
        ({"data": stack(*range(5)), "labels": [1] * 5}, r"miniimagenet must have at least two classes\. It has 1"),
        ({"data": stack(1, 2), "labels": [0, 1]}, r"must have more than 3 images.*'0' has 1\."),
    ],
)
def test_pickles_that_hold_something_else(data, table, sentence):
    write(data / "mini-imagenet", {"train.pkl": pickle.dumps(table)})
    with pytest.raises(InputError, match=sentence):
        MINI_IMAGENET.load(quiet)


def test_a_class_in_two_pickles(data):
    table = pickle.dumps({"data": stack(*range(8)), "labels": [0, 1] * 4})
    write(data / "mini-imagenet", {"train.pkl": table, "val.pkl": table})
    with pytest.raises(InputError, match=r"The class '0' is in .*val\.pkl and in another pickle"):
        MINI_IMAGENET.load(quiet)


def listed(**splits):
    """The three lists, and the images that they name: the k-th of the n-th class has the grey 20 n + k."""
    files = {}
    for split, names in splits.items():
        lines = [f"{name}{number}.png,{name}" for number in range(5) for name in names]
        files[f"{split}.csv"] = "\r\n".join(["filename,label", *lines, ""]).encode()
    for place, name in enumerate("abcd"):
        files |= {f"images/{name}{number}.png": flat(20 * place + number, 84) for number in range(5)}
    return files


def test_lists_in_csv(data):
    write(data / "mini-imagenet", listed(train="db", val="a", test="c"))
    dataset = MINI_IMAGENET.load(quiet)
    assert dataset.classes == ("a", "b", "c", "d")
    assert greys(dataset) == (
        [20 * c + i for c in range(4) for i in range(3)],
        [20 * c + i for c in range(4) for i in (3, 4)],
    )
    assert dataset.notes == ()


def test_images_beside_the_lists(data):
    files = {name.removeprefix("images/"): content for name, content in listed(train="db", val="a", test="c").items()}
    write(data / "mini-imagenet", files)
    assert greys(MINI_IMAGENET.load(quiet))[1] == [3, 4, 23, 24, 43, 44, 63, 64]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"a0.png,a\n", r"val\.csv must hold lines of filename,label below the heading 'filename,label'"),
        (b"", r"val\.csv must hold lines of filename,label"),
        (b"filename,label\na0.png\n", r"val\.csv must hold lines of filename,label"),
        (b"filename,label\n" + b"x" * 200_000 + b",a\n", r"val\.csv must hold lines of filename,label"),
        (b"filename,label\nz9.png,a\n", r"val\.csv lists the image 'z9\.png', which does not exist"),
        (b"filename,label\n../../a0.png,a\n", r"lists the image '\.\./\.\./a0\.png', which does not exist"),
        (b"\xff\xfe", r"val\.csv is damaged: it is not a text file"),
    ],
)
def test_lists_that_say_something_else(data, content, sentence):
    write(data / "mini-imagenet", {**listed(train="db", val="a", test="c"), "val.csv": content})
    with pytest.raises(InputError, match=sentence):
        MINI_IMAGENET.load(quiet)


def test_lists_of_nothing(data):
    write(data / "mini-imagenet", dict.fromkeys(["train.csv", "val.csv", "test.csv"], b"filename,label\n"))
    with pytest.raises(InputError, match=r"miniimagenet must have at least two classes\. It has 0"):
        MINI_IMAGENET.load(quiet)


def test_images_of_other_sizes_are_brought_to_84(data):
    files = {name: flat(7, side) for side, name in enumerate(images("ab"), start=80)}
    write(data / "mini-imagenet", files)
    assert greys(MINI_IMAGENET.load(quiet)) == ([7] * 6, [7] * 4)


def test_it_cannot_be_fetched(data):
    with pytest.raises(
        InputError, match=r"miniimagenet is not in .*, and cannot be fetched\. Put one of mini-imagenet, miniimagenet, "
    ):
        MINI_IMAGENET.load(quiet)


def test_damage_names_no_way_to_fetch_it(data):
    (data / "mini-imagenet").write_bytes(b"no folder")
    with pytest.raises(InputError, match=r"mini-imagenet is damaged or incomplete \(ReadError\)\.$"):
        MINI_IMAGENET.load(quiet)
