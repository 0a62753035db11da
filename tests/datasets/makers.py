"""Small datasets in the layouts of the large ones, written by the plainest means."""

import gzip
import io
import json
import pickle
import tarfile
import zipfile

import numpy as np
import pyarrow
import pyarrow.parquet
from PIL import Image


def quiet(*_):
    pass


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def encode(image, kind="PNG", **options):
    """The bytes of an image, which may be given as an array (h, w) or (h, w, 3)."""
    image = image if isinstance(image, Image.Image) else Image.fromarray(image)
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def flat(value, side=8, kind="PNG"):
    """An image of one grey."""
    return encode(np.full((side, side, 3), value, np.uint8), kind)


def write(folder, files):
    """Write files by their names below a folder."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def tar(path, files, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def zipped(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def below(top, files):
    return {f"{top}/{name}": content for name, content in files.items()}


def cifar(classes=4, train=20, test=8):
    """Images and labels of both splits: (n, 3, 32, 32), (n,), ..."""
    return (
        noise(train, 3, 32, 32, seed=1),
        (np.arange(train) % classes).astype(np.uint8),
        noise(test, 3, 32, 32, seed=2),
        (np.arange(test) % classes).astype(np.uint8),
    )


NAMES = ("ant", "bee", "cat", "dog")


def cifar10_binary(train_x, train_y, test_x, test_y):
    parts = np.array_split(np.arange(len(train_y)), 5)
    files = {f"data_batch_{i + 1}.bin": _records(train_x[rows], train_y[rows]) for i, rows in enumerate(parts)}
    return {
        **files,
        "test_batch.bin": _records(test_x, test_y),
        "batches.meta.txt": "\n".join([*NAMES, "", ""]).encode(),
        "readme.html": b"<html></html>",
    }


def cifar100_binary(train_x, train_y, test_x, test_y):
    return {
        "train.bin": _records(train_x, 19 - train_y, train_y),
        "test.bin": _records(test_x, 19 - test_y, test_y),
        "coarse_label_names.txt": b"\n".join(b"coarse %d" % number for number in range(20)),
        "fine_label_names.txt": "\n".join([*NAMES, ""]).encode(),
    }


def _records(x, *labels):
    return b"".join(
        bytes([*(column[row] for column in labels)]) + x[row].tobytes()  # as the page of CIFAR describes them
        for row in range(len(x))
    )


def cifar10_python(train_x, train_y, test_x, test_y, protocol=2):
    def batch(x, y):
        table = {"batch_label": "training batch", "labels": y.tolist(), "data": x.reshape(len(x), -1), "filenames": []}
        return old_pickle(table, protocol)

    parts = np.array_split(np.arange(len(train_y)), 5)
    return {
        **{f"data_batch_{i + 1}": batch(train_x[rows], train_y[rows]) for i, rows in enumerate(parts)},
        "test_batch": batch(test_x, test_y),
        "batches.meta": old_pickle({"num_cases_per_batch": 4, "label_names": list(NAMES), "num_vis": 3072}, protocol),
    }


def cifar100_python(train_x, train_y, test_x, test_y, protocol=2):
    def split(x, y):
        table = {"fine_labels": y.tolist(), "coarse_labels": (19 - y).tolist(), "data": x.reshape(len(x), -1)}
        return old_pickle(table, protocol)

    coarse = [f"coarse {number}" for number in range(20)]
    return {
        "train": split(train_x, train_y),
        "test": split(test_x, test_y),
        "meta": old_pickle({"fine_label_names": list(NAMES), "coarse_label_names": coarse}, protocol),
    }


def old_pickle(value, protocol=2):
    """A pickle with bytes for all texts, as those that Python 2 wrote are read."""

    def narrow(value):
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, list):
            return [narrow(item) for item in value]
        return {narrow(key): narrow(item) for key, item in value.items()} if isinstance(value, dict) else value

    return pickle.dumps(narrow(value), protocol)


def idx(array):
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def mnist(train_x, train_y, test_x, test_y, packed=True):
    arrays = {
        "train-images-idx3-ubyte": train_x,
        "train-labels-idx1-ubyte": train_y,
        "t10k-images-idx3-ubyte": test_x,
        "t10k-labels-idx1-ubyte": test_y,
    }
    if packed:
        return {f"{name}.gz": gzip.compress(idx(array)) for name, array in arrays.items()}
    return {name: idx(array) for name, array in arrays.items()}


def digits(train=20, test=10):
    labels = np.arange(train) % 10, np.arange(test) % 10
    return noise(train, 28, 28, seed=1), labels[0].astype(np.uint8), noise(test, 28, 28, seed=2), labels[1].astype("u1")


def tiny(classes=("n02", "n01"), train=3, val=2):
    """Tiny-ImageNet with flat images: those of the k-th class have the grey 40 k + 4 number (+ 100 in val)."""
    files = {
        "wnids.txt": "\n".join(classes).encode(),
        "words.txt": b"n00\tnothing\nn01\tgoldfish, Carassius auratus\nn02\tsalamander\n",
    }
    lines = []
    for k, name in enumerate(sorted(classes)):
        files[f"train/{name}/{name}_boxes.txt"] = b"0\t0\t63\t63\n"
        for i in range(train):
            files[f"train/{name}/images/{name}_{i}.JPEG"] = flat(40 * k + 4 * i, 64, "JPEG")
        for i in range(val):
            files[f"val/images/val_{2 * i + k}.JPEG"] = flat(100 + 40 * k + 4 * i, 64, "JPEG")
            lines.append(f"val_{2 * i + k}.JPEG\t{name}\t0\t0\t63\t63")
    files["val/val_annotations.txt"] = "\n".join(lines).encode()
    return files


def hf(rows, names=("cat", "dog"), image="image", label="label", declared=True):
    """A table of (bytes, label) rows as the library of Hugging Face writes it, with its features in the schema."""
    images = [{"bytes": content, "path": None} for content, _ in rows]
    kind = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    table = pyarrow.table(
        {image: pyarrow.array(images, kind), label: pyarrow.array([y for _, y in rows], pyarrow.int64())}
    )
    features = {image: {"_type": "Image"}, label: {"names": list(names), "_type": "ClassLabel"}}
    facts = json.dumps({"info": {"features": features}})
    return table.replace_schema_metadata({"huggingface": facts}) if declared else table


def arrow(table):
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def parquet(table):
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def left(folder):
    """All that lies below a folder, hidden or not."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
