import dataclasses

import numpy as np
import pytest

from datasets import makers
from datasets.makers import NAMES, below, quiet, tar, write
from evenhand import datasets
from evenhand.datasets import cifar
from evenhand.errors import InputError

TEN = dataclasses.replace(cifar.CIFAR10, digest="")
HUNDRED = dataclasses.replace(cifar.CIFAR100, digest="")
FORMS = [
    (TEN, makers.cifar10_binary, "cifar-10-batches-bin", "cifar-10-binary.tar.gz"),
    (TEN, makers.cifar10_python, "cifar-10-batches-py", "cifar-10-python.tar.gz"),
    (HUNDRED, makers.cifar100_binary, "cifar-100-binary", "cifar-100-binary.tar.gz"),
    (HUNDRED, makers.cifar100_python, "cifar-100-python", "cifar-100-python.tar.gz"),
]


def same(dataset, arrays):
    found = dataset.train_x, dataset.train_y, dataset.test_x, dataset.test_y
    return all(np.array_equal(one, other) for one, other in zip(found, arrays, strict=True))


@pytest.mark.parametrize(("source", "make", "folder", "archive"), FORMS)
def test_folders_and_archives_hold_exactly_what_was_written(data, source, make, folder, archive):
    written = makers.cifar()
    tar(data / archive, below(folder, make(*written)))
    packed = source.load(quiet)
    (data / archive).unlink()
    write(data / folder, make(*written))
    unpacked = source.load(quiet)
    for dataset in (packed, unpacked):
        assert same(dataset, written)
        assert dataset.classes == NAMES
        assert dataset.train_x.dtype.itemsize == 1
    assert packed.digest == unpacked.digest


@pytest.mark.parametrize(("source", "forms"), [(TEN, FORMS[:2]), (HUNDRED, FORMS[2:])], ids=["cifar10", "cifar100"])
def test_binary_and_python_give_one_digest(data, source, forms):
    digests = set()
    for _, make, folder, _ in forms:
        written = write(data / folder, make(*makers.cifar()))
        digests.add(source.load(quiet).digest)
        written.rename(data / f"{folder}.seen")
    assert len(digests) == 1


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("make", [makers.cifar10_python, makers.cifar100_python])
def test_pickles_of_every_protocol(tmp_path, make, protocol):
    written = makers.cifar()
    raw = cifar.read_cifar(write(tmp_path / "batches-py", make(*written, protocol=protocol)))
    assert np.array_equal(raw.train_x, written[0])
    assert raw.train_y.tolist() == written[1].tolist()


def test_an_archive_without_a_top_folder(tmp_path):
    written = makers.cifar()
    for top in ("", "./"):
        files = {top + name: content for name, content in makers.cifar10_binary(*written).items()}
        assert np.array_equal(cifar.read_cifar(tar(tmp_path / "cifar-binary.tar.gz", files)).test_x, written[2])


@pytest.mark.parametrize(("name", "form"), [("cifar10", FORMS[0]), ("cifar100", FORMS[3])])
def test_other_content_is_refused_by_its_hash(data, name, form):
    _, make, folder, _ = form
    write(data / folder, make(*makers.cifar()))
    then = rf"Remove {data / folder}, then run evenhand data fetch {name}\.$"
    with pytest.raises(InputError, match=rf"The files of {name} differ from the published data: .*\. {then}"):
        datasets.load(name)
    assert makers.left(data) == sorted([folder, *(f"{folder}/{file}" for file in make(*makers.cifar()))])


def test_a_truncated_archive(data):
    path = tar(data / "cifar-10-binary.tar.gz", below("cifar-10-batches-bin", makers.cifar10_binary(*makers.cifar())))
    whole = path.read_bytes()
    for size in (0, 1, 10, 1000, len(whole) // 2, len(whole) - 200):
        path.write_bytes(whole[:size])
        with pytest.raises(
            InputError,
            match=rf"^{path} is (damaged or )?incomplete.*\. Remove {path}, then run evenhand data fetch cifar10\.$",
        ):
            TEN.load(quiet)
    assert makers.left(data) == ["cifar-10-binary.tar.gz"]


def test_a_missing_file(data):
    files = makers.cifar10_binary(*makers.cifar())
    del files["data_batch_3.bin"]
    write(data / "cifar-10-batches-bin", files)
    with pytest.raises(InputError, match=r"cifar-10-batches-bin is incomplete: it has no 'data_batch_3\.bin'\. Remove"):
        TEN.load(quiet)


def test_records_that_are_not_whole(data):
    files = makers.cifar10_binary(*makers.cifar())
    files["test_batch.bin"] += b"x"
    with pytest.raises(InputError, match=r"is damaged: its 24585 bytes are not a whole number of records"):
        cifar.read_cifar(write(data / "cifar-10-batches-bin", files))


def test_labels_beyond_the_names(data):
    x, y, test_x, test_y = makers.cifar()
    write(data / "cifar-10-batches-bin", makers.cifar10_binary(x, y + 4, test_x, test_y))
    with pytest.raises(InputError, match=r"The training labels of cifar10 must be numbers below 4\. Got 4 instead"):
        TEN.load(quiet)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"labels": [0, 1]}, "holds no 32 x 32 images"),
        ({"data": makers.noise(2, 100), "labels": [0, 1]}, "holds no 32 x 32 images"),
        ({"data": makers.noise(2, 3072) / 255, "labels": [0, 1]}, "holds no 32 x 32 images"),
        ({"data": makers.noise(2, 3072)}, "must hold one label per image"),
        ({"data": makers.noise(2, 3072), "labels": [0]}, "must hold one label per image"),
        ({"data": makers.noise(2, 3072), "labels": [0, 100]}, "s labels are not all numbers below 100"),
        ({"data": makers.noise(2, 3072), "labels": [0, "1"]}, "s labels are not all numbers below 100"),
        ([1, 2], "does not hold a dictionary"),
    ],
)
def test_pickles_that_hold_something_else(tmp_path, table, sentence):
    files = {**makers.cifar10_python(*makers.cifar()), "data_batch_2": makers.old_pickle(table)}
    with pytest.raises(InputError, match=rf"data_batch_2 is damaged: it.*{sentence}"):
        cifar.read_cifar(write(tmp_path / "batches-py", files))


def test_pickles_without_names(tmp_path):
    files = {**makers.cifar10_python(*makers.cifar()), "batches.meta": makers.old_pickle({"label_names": 3})}
    with pytest.raises(InputError, match=r"batches\.meta is damaged: it holds no class names"):
        cifar.read_cifar(write(tmp_path / "batches-py", files))


def test_the_first_folder_that_has_any_form_is_used(data, monkeypatch, tmp_path):
    x, y, test_x, test_y = makers.cifar()
    write(data / "cifar-10-batches-py", makers.cifar10_python(x, y, test_x, test_y))
    write(tmp_path / "other" / "cifar-10-batches-bin", makers.cifar10_binary(255 - x, y, test_x, test_y))
    monkeypatch.setenv("EVENHAND_DATA", f"{data}:{tmp_path / 'other'}")
    assert same(TEN.load(quiet), (x, y, test_x, test_y))
    monkeypatch.setenv("EVENHAND_DATA", f"{tmp_path / 'other'}:{data}")
    assert same(TEN.load(quiet), (255 - x, y, test_x, test_y))
