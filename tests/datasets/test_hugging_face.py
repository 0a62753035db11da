import json
import sys

import numpy as np
import pyarrow
import pytest

from datasets.makers import arrow, encode, flat, hf, left, noise, parquet, write
from evenhand import datasets
from evenhand.errors import InputError
from evenhand.experiment.run import build
from evenhand.experiment.spec import Spec

ROWS = [(flat(10 * number), number % 2) for number in range(10)]


def greys(x):
    return x[:, 0, 0, 0].tolist()


def load(path, **options):
    return datasets.load(f"hf:{path}", **options)


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("train/data-00000-of-00001.arrow", "test/data-00000-of-00001.arrow"),
        ("train/data-00000-of-00001.arrow", "validation/data-00000-of-00001.arrow"),
        ("data/train-00000-of-00001.parquet", "data/test-00000-of-00001.parquet"),
        ("data/train-00000-of-00001-0a1b.parquet", "data/validation-00000-of-00001-0a1b.parquet"),
        ("train.parquet", "valid.parquet"),
        ("Train.arrow", "val.parquet"),
        ("pets-train.parquet", "pets-test.parquet"),
        ("pets_training_0.arrow", "pets_testing_0.arrow"),
        ("My Train/attest.parquet", "My Test/attest.parquet"),
    ],
)
def test_both_formats_and_all_names_of_splits(tmp_path, train, test):
    pictures = noise(8, 8, 9, 3)
    rows = [(encode(x), number % 2) for number, x in enumerate(pictures)]
    files = {train: rows[:4], test: rows[4:]}
    write(tmp_path / "mine", {name: (arrow if "arrow" in name else parquet)(hf(part)) for name, part in files.items()})
    dataset = load(tmp_path / "mine")
    assert dataset.classes == ("cat", "dog")
    assert np.array_equal(dataset.train_x, pictures[:4].transpose(0, 3, 1, 2))
    assert np.array_equal(dataset.test_x, pictures[4:].transpose(0, 3, 1, 2))
    assert dataset.train_y.tolist() == dataset.test_y.tolist() == [0, 1, 0, 1]


def test_parts_of_a_split_come_in_their_order(tmp_path):
    files = {f"train/data-0000{part}-of-00003.arrow": arrow(hf(ROWS[3 * part : 3 * part + 3])) for part in range(3)}
    files["test/data-00000-of-00001.arrow"] = arrow(hf(ROWS[:2]))
    files["train/dataset_info.json"] = files["train/state.json"] = files["dataset_dict.json"] = b"{}"
    assert greys(load(write(tmp_path / "mine", files)).train_x) == [10 * number for number in range(9)]


@pytest.mark.parametrize("name", ["train.parquet", "data.arrow", "validation.parquet"])
def test_without_a_second_split_every_fifth_sample_of_a_class_is_held_out(tmp_path, name):
    path = tmp_path / name
    path.write_bytes((arrow if "arrow" in name else parquet)(hf(ROWS + ROWS[:4])))
    dataset = load(path)
    assert greys(dataset.test_x) == [0, 10, 0, 10]  # the first and the sixth of each
    assert greys(dataset.train_x) == [20, 30, 40, 50, 60, 70, 80, 90, 20, 30]
    assert dataset.test_y.tolist() == [0, 1, 0, 1]


def test_two_splits_without_one_for_training(tmp_path):
    path = write(tmp_path / "mine", {f"{split}.parquet": parquet(hf(ROWS)) for split in ("validation", "test")})
    with pytest.raises(InputError, match="has the splits test and validation, but none to train on."):
        load(path)


def test_the_test_split_comes_before_validation(tmp_path):
    parts = {"train": ROWS, "test": ROWS[2:4], "validation": ROWS[4:6]}
    path = write(tmp_path / "mine", {f"{split}.parquet": parquet(hf(rows)) for split, rows in parts.items()})
    assert greys(load(path).test_x) == [20, 30]


def test_a_split_is_a_whole_word(tmp_path):
    """Neither a word that begins like a split nor the name of the folder that holds all files is one."""
    names = ["trains.parquet", "valley-00000-of-00002.parquet", "contest.parquet"]
    path = write(tmp_path / "test", {name: parquet(hf(ROWS)) for name in names})
    assert len(load(path).train_y) == 3 * 8


def test_files_without_a_split_beside_others_that_have_one(tmp_path):
    path = write(tmp_path / "mine", {name: parquet(hf(ROWS)) for name in ("data.parquet", "test.parquet")})
    sentence = r"mine/data\.parquet names no split, but other files in .*mine do\. Add a word such as train or test"
    with pytest.raises(InputError, match=sentence):
        load(path)


def test_what_the_library_caches_beside_the_data_is_no_data(tmp_path):
    names = ["train/data-00000-of-00001.arrow", "train/cache-0123456789abcdef.arrow", "test/data-00000-of-00001.arrow"]
    path = write(tmp_path / "mine", {name: arrow(hf(ROWS)) for name in names})
    assert greys(load(path).train_x) == [10 * number for number in range(10)]
    assert len(load(path / names[1]).train_y) == 8  # unless it is what was asked for


def test_columns_by_their_declared_kinds(tmp_path):
    (tmp_path / "x.parquet").write_bytes(parquet(hf(ROWS, image="photo", label="animal")))
    assert load(tmp_path / "x.parquet").classes == ("cat", "dog")


def test_columns_by_their_usual_names(tmp_path):
    for image, label in (("image", "label"), ("img", "labels"), ("img", "fine_label")):
        (tmp_path / "x.parquet").write_bytes(parquet(hf(ROWS, image=image, label=label, declared=False)))
        dataset = load(tmp_path / "x.parquet")
        assert dataset.classes == ("0", "1")
        assert len(dataset.train_y) == 8


def test_images_as_plain_bytes(tmp_path):
    table = pyarrow.table({"image": [content for content, _ in ROWS], "label": [label for _, label in ROWS]})
    (tmp_path / "x.arrow").write_bytes(arrow(table))
    assert greys(load(tmp_path / "x.arrow").test_x) == [0, 10]


def test_size_and_skip_bad(tmp_path):
    rows = [*ROWS[:4], (b"no image", 0), (flat(90, side=20), 1)]
    (tmp_path / "x.parquet").write_bytes(parquet(hf(rows)))
    with pytest.raises(InputError, match=r"Training image 2 of .*x\.parquet and 1 more cannot be used"):
        load(tmp_path / "x.parquet")
    dataset = load(tmp_path / "x.parquet", size=4, skip_bad=True)
    assert dataset.shape == (3, 4, 4)
    assert greys(dataset.train_x) == [20, 30, 90]
    assert dataset.notes == (
        f"Skipped Training image 2 of {tmp_path / 'x.parquet'}: It is not a complete image (UnidentifiedImageError).",
    )


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["dog", "cat", "dog", "ant", "cat", "ant"], ("ant", "cat", "dog")),
        ([7, 3, 7, -1, 3, -1], ("-1", "3", "7")),
        ([True, False, True, False, True, False], ("False", "True")),
        (pyarrow.array([1 << 63, 0, 1 << 63, 1, 0, 1], pyarrow.uint64()), ("0", "1", str(1 << 63))),
    ],
)
def test_labels_keep_their_names(tmp_path, labels, classes):
    rows = table(labels, [flat(10 * number) for number in range(6)])
    (tmp_path / "x.parquet").write_bytes(parquet(rows))
    dataset = load(tmp_path / "x.parquet")
    assert dataset.classes == classes
    shown = {
        grey // 10: name for grey, name in zip(greys(dataset.train_x), dataset.names(dataset.train_y), strict=True)
    }
    given = [str(label) for label in rows.column("label").to_pylist()]
    assert shown == {row: given[row] for row in shown}


def test_the_names_of_both_splits_are_numbered_together(tmp_path):
    files = {"train.parquet": ["b", "c", "a"], "test.parquet": ["c", "a", "b", "c"]}
    path = write(tmp_path / "mine", {name: parquet(table(labels)) for name, labels in files.items()})
    dataset = load(path)
    assert dataset.names(dataset.train_y) == ["b", "c", "a"]
    assert dataset.names(dataset.test_y) == ["c", "a", "b", "c"]


@pytest.mark.parametrize(
    "files",
    [
        {"train.parquet": ("cat", "dog"), "test.parquet": ("dog", "cat")},
        {"train-0.parquet": ("cat", "dog"), "train-1.parquet": ("cat", "dog", "owl"), "test.parquet": ("cat", "dog")},
    ],
)
def test_files_that_number_their_classes_differently(tmp_path, files):
    path = write(tmp_path / "mine", {name: parquet(hf(ROWS, names)) for name, names in files.items()})
    sentence = r"declares other classes than the files before it, or in another order: '(dog|owl)' instead of"
    with pytest.raises(InputError, match=sentence):
        load(path)


def test_columns_that_are_named(tmp_path):
    contents = [content for content, _ in ROWS]
    rows = table([0, 1] * 5, [flat(200)] * 10, photo=contents, animal=["cat", "dog"] * 5)
    (tmp_path / "x.parquet").write_bytes(parquet(rows))
    assert load(tmp_path / "x.parquet").classes == ("0", "1")
    dataset = load(tmp_path / "x.parquet", columns="photo, animal")  # not the arrays that were prepared before
    assert dataset.classes == ("cat", "dog")
    assert greys(dataset.test_x) == [0, 10]
    options = {"data": f"hf:{tmp_path / 'x.parquet'}", "columns": "photo,animal", "stages": 2, "batch": 3}
    stream, _ = build(Spec.make(method="er", backbone="mlp", keep_partial=True, **options))
    assert stream.dataset.classes == ("cat", "dog")
    assert [len(step.y) for step in stream.steps()] == [3, 1, 3, 1]


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ("photo", r"--columns must name the columns of images and labels, e\.g\. photo,animal\. Got 'photo' instead\."),
        ("image,", r"--columns must name the columns of images and labels"),
        ("image,labell", r"There is no column of .*x\.arrow called 'labell'\. Did you mean label\?"),
    ],
)
def test_columns_that_cannot_be_used(tmp_path, columns, sentence):
    (tmp_path / "x.arrow").write_bytes(arrow(table([0, 1] * 2)))
    with pytest.raises(InputError, match=sentence):
        load(tmp_path / "x.arrow", columns=columns)


def test_columns_are_only_for_tables(tmp_path):
    with pytest.raises(InputError, match=r"--columns applies only to Hugging Face data \(hf:\), not to fashion-cut\."):
        datasets.load("fashion-cut", columns="a,b")


def test_splits_of_two_sizes_say_what_to_do(tmp_path):
    files = {"train.parquet": [flat(1), flat(2)] * 2, "test.parquet": [flat(1, side=9), flat(2, side=9)]}
    tables = {name: parquet(table([0, 1] * (len(x) // 2), x)) for name, x in files.items()}
    path = write(tmp_path / "mine", tables)
    with pytest.raises(InputError, match=r"3 x 8 x 8\. Got '3 x 9 x 9' instead\. Use --size to resize all images\.$"):
        load(path)
    assert load(path, size=4).shape == (3, 4, 4)


def table(labels, images=None, **more):
    images = [flat(1)] * len(labels) if images is None else images
    return pyarrow.table({"image": images, "label": labels, **more})


def facts(features):
    rows = table([0, 1])
    return rows.replace_schema_metadata(
        {"huggingface": features if isinstance(features, bytes) else json.dumps(features)}
    )


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (
            pyarrow.table({"text": ["a"], "label": [1]}),
            r"has no column of type Image\. It has text, label\. Name the columns of",
        ),
        (pyarrow.table({"image": [b"a"], "y": [1]}), r"has no column of type ClassLabel\. It has image, y\. Name"),
        (table([0, 1], [flat(1), None]), r"must contain the bytes of its images\. Row 1 does not"),
        (
            table([0, 1], [{"bytes": None, "path": "a.png"}] * 2),
            r"the bytes of its images\. Row 0 does not",
        ),
        (hf([(flat(1), 0), (flat(1), -1)] * 2), r"The labels of .* must be whole numbers of at least 0"),
        (hf([(flat(1), 0), (flat(1), 1 << 40)] * 2), r"The labels of .* must be whole numbers of at least 0"),
        (table([0, None]), r"The labels of .* must all be whole numbers, or all be strings"),
        (table(["a", None]), r"The labels of .* must all be whole numbers, or all be strings"),
        (table([0.0, 1.0]), r"The labels of .* must all be whole numbers, or all be strings"),
        (table(["a", "a", "b"]), r"The class 'b' in .* must have at least two images, one for testing\. It has 1"),
        (hf([(flat(1), 0), (flat(1), 0), (flat(1), 1)]), r"The class 'dog' in .* must have at least two images"),
        (table([0, 0, 0]), r"must have at least two classes\. It has 1"),
        (table(pyarrow.array([], pyarrow.int64()), pyarrow.array([], pyarrow.binary())), r"It has no rows"),
        (hf([(flat(1), 0), (flat(1), 2)] * 2), r"The training labels of .* must be numbers below 2\. Got 2 instead"),
        (facts([]), r"is damaged: it is not a complete table"),
        (facts({"info": {"features": {"image": 3}}}), r"is damaged: it is not a complete table"),
        (facts({"info": {"features": {"label": {"names": 3}}}}), r"is damaged: it is not a complete table"),
        (facts(b"{"), r"is damaged: it is not a complete table"),
        (facts(b"[" * 100_000), r"is damaged: it is not a complete table"),
        (pyarrow.Table.from_arrays([pyarrow.array([1])] * 3, ["image", "image", "label"]), "is not a complete table"),
    ],
)
def test_tables_that_cannot_be_used(tmp_path, made, sentence):
    (tmp_path / "x.arrow").write_bytes(arrow(made))
    with pytest.raises(InputError, match=sentence):
        load(tmp_path / "x.arrow")
    assert left(tmp_path) == ["data", "x.arrow"]


@pytest.mark.parametrize("kind", [arrow, parquet])
def test_truncated_tables(tmp_path, kind):
    path = tmp_path / f"x.{kind.__name__}"
    whole = kind(hf(ROWS))
    for size in (0, 3, 100, len(whole) // 2, len(whole) - 30):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=rf"x\.{kind.__name__} is damaged: it is not a complete table"):
            load(path)


def test_offsets_that_lead_anywhere(tmp_path):
    """The offsets of the images in the second buffer are large: following them would end the process."""
    whole = arrow(table([0, 1], [b"abcdefgh", b"ijklmnop"]))
    offsets = np.array([0, 8, 16], np.int32).tobytes()
    assert whole.count(offsets) == 1
    (tmp_path / "x.arrow").write_bytes(whole.replace(offsets, np.array([0, 1 << 30, 1 << 31 - 1], np.int32).tobytes()))
    with pytest.raises(InputError, match=r"x\.arrow is damaged: it is not a complete table"):
        load(tmp_path / "x.arrow")


def test_no_tables(tmp_path):
    for path in (tmp_path, tmp_path / "nothing", tmp_path / "nothing.parquet"):
        with pytest.raises(InputError, match=rf"There are no \.arrow or \.parquet files in {path}\."):
            load(path)


def test_without_pyarrow(tmp_path, monkeypatch):
    (tmp_path / "x.arrow").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"need pyarrow, which .* pip install 'evenhand\[tables\]'"):
        load(tmp_path / "x.arrow")
