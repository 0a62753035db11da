import dataclasses
import gzip

import numpy as np
import pytest

from datasets import makers
from datasets.makers import idx, quiet, write
from evenhand.datasets.idx import CLOTHES, DIGITS, FASHION, MNIST
from evenhand.errors import InputError

CLOTHING = dataclasses.replace(FASHION, digest="")


@pytest.mark.parametrize("packed", [True, False], ids=["gz", "plain"])
@pytest.mark.parametrize(
    ("source", "folder", "classes"),
    [
        (MNIST, "mnist", DIGITS),
        (MNIST, "MNIST/raw", DIGITS),
        (CLOTHING, "fashion-mnist", CLOTHES),
        (CLOTHING, "FashionMNIST/raw", CLOTHES),
    ],
)
def test_the_four_files_hold_exactly_what_was_written(data, source, folder, classes, packed):
    x, y, test_x, test_y = makers.digits()
    write(data / folder, makers.mnist(x, y, test_x, test_y, packed))
    dataset = source.load(quiet)
    assert np.array_equal(dataset.train_x, x[:, None])
    assert np.array_equal(dataset.test_x, test_x[:, None])
    assert dataset.train_y.tolist() == y.tolist()
    assert dataset.test_y.tolist() == test_y.tolist()
    assert dataset.classes == classes


def test_other_clothes_are_refused_by_their_hash(data):
    write(data / "fashion-mnist", makers.mnist(*makers.digits()))
    with pytest.raises(InputError, match=r"The files of fashion-mnist differ from the published data"):
        FASHION.load(quiet)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("train-labels-idx1-ubyte", idx(np.zeros(19, np.uint8)), r"must be 20, one per image\. Got 19 instead"),
        ("train-labels-idx1-ubyte", idx(np.zeros((20, 1), np.uint8)), "does not begin as an IDX file of rank 1"),
        ("t10k-images-idx3-ubyte", idx(makers.noise(10, 28, 28))[:-1], "says 10 x 28 x 28, but it has 7839 bytes"),
        ("t10k-images-idx3-ubyte", idx(makers.noise(10, 28, 28)) + b"x", "says 10 x 28 x 28, but it has 7841 bytes"),
        ("t10k-images-idx3-ubyte", idx(makers.noise(10, 32, 32)), r"must be 28 x 28\. Got '10 x 32 x 32' instead"),
        ("t10k-images-idx3-ubyte", bytes([0, 0, 8, 3]) + 12 * b"\xff", "says 4294967295 x 4294967295 x 4294967295"),
        ("t10k-images-idx3-ubyte", b"", "does not begin as an IDX file of rank 3"),
        ("t10k-images-idx3-ubyte", bytes([0, 0, 9, 3]) + bytes(12), "does not begin as an IDX file of rank 3"),
    ],
)
@pytest.mark.parametrize("packed", [True, False], ids=["gz", "plain"])
def test_files_that_do_not_add_up(data, name, content, sentence, packed):
    files = makers.mnist(*makers.digits(), packed)
    files[f"{name}.gz" if packed else name] = gzip.compress(content) if packed else content
    write(data / "mnist", files)
    with pytest.raises(InputError, match=rf"{name}.*{sentence}"):
        MNIST.load(quiet)


def test_truncated_gzip(data):
    name = "train-images-idx3-ubyte.gz"
    files = makers.mnist(*makers.digits())
    for size in (0, 5, 100, len(files[name]) - 1):
        write(data / "mnist", {**files, name: files[name][:size]})
        with pytest.raises(InputError, match=rf"{name} is damaged or incomplete\. Remove {data / 'mnist'}, then run"):
            MNIST.load(quiet)


def test_gzip_that_unpacks_to_far_too_much(data, monkeypatch):
    monkeypatch.setattr("evenhand.datasets.idx.MAX_BYTES", 1000)
    write(data / "mnist", makers.mnist(*makers.digits()))
    with pytest.raises(InputError, match="is damaged or incomplete"):
        MNIST.load(quiet)


def test_a_missing_file(data):
    files = makers.mnist(*makers.digits())
    del files["t10k-labels-idx1-ubyte.gz"]
    write(data / "mnist", files)
    with pytest.raises(InputError, match="mnist is incomplete: it has no 't10k-labels-idx1-ubyte'"):
        MNIST.load(quiet)


def test_no_images_at_all(data):
    nothing = np.zeros((0, 28, 28), np.uint8), np.zeros(0, np.uint8)
    write(data / "mnist", makers.mnist(*nothing, *makers.digits()[2:]))
    with pytest.raises(InputError, match=r"Every class of mnist must have training samples"):
        MNIST.load(quiet)


def test_a_file_in_the_place_of_the_folder(data):
    (data / "mnist").write_bytes(b"no folder")
    with pytest.raises(InputError, match="mnist is damaged or incomplete"):
        MNIST.load(quiet)
