"""Encoded images (PNG, JPEG, WebP, ...), decoded by several threads straight into a memory-mapped array."""

import io
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from evenhand import errors
from evenhand.datasets import archives

Array = np.ndarray[Any, Any]
EncodedImages = Sequence[tuple[str, archives.Content]]
"""The name of each image, for errors, and its content."""
Progress = Callable[[str, int, int], None]
"""Called with a description of the work, the amount done and the total."""

RESIZE = "Use --size to resize all images."
MAX_PIXELS = 1 << 26  # of one image; more is a mistake or an attack


def decode(
    images: EncodedImages, path: Path, progress: Progress, size: int | None = None, skip_bad: bool | None = None
) -> tuple[Array, list[str]]:
    """Write images as one array (n, 3, h, w); return the indices of those kept, and notes on the others.

    Parameters
    ----------
    size
        Side of the square to which all are resized: the shorter side is scaled, the longer one cropped. None keeps
        their size, which must then be the same for all.
    skip_bad
        Skip images that cannot be read, and note them. None for known datasets, where no image may be missing.
    """
    if not images:
        raise errors.InputError("There are no images.")
    shape = _first_shape(images) if size is None else (size, size)
    pixels = np.lib.format.open_memmap(path, "w+", np.uint8, (len(images), 3, *shape))
    with path.open("r+b") as file:  # a full disk raises here, instead of killing the process at a later write
        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    bad: dict[int, str] = {}

    def work(index: int) -> None:
        try:
            pixels[index] = decode_image(archives.read(images[index][1]), size, shape).transpose(2, 0, 1)
        except errors.InputError as error:
            bad[index] = str(error)
        except OSError as error:
            bad[index] = f"{error.strerror or error}."

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for done, _ in enumerate(pool.map(work, range(len(images))), start=1):
            if done % 100 == 0 or done == len(images):
                progress("decoding", done, len(images))
    if not bad:
        pixels.flush()
        return np.arange(len(images)), []
    if not skip_bad or len(bad) == len(images):
        others = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        sentence = f"{images[min(bad)][0]}{others} cannot be used: {bad[min(bad)]}"
        if skip_bad is None:
            raise archives.DamagedError(sentence)
        then = " No image is left." if skip_bad else " Fix or remove such images, or use --skip-bad."
        raise errors.InputError(sentence if sentence.endswith(RESIZE) else sentence + then)
    kept = np.setdiff1d(np.arange(len(images)), sorted(bad))
    path.unlink()  # the mapped pixels stay readable
    np.save(path, pixels[kept])
    return kept, [f"Skipped {images[index][0]}: {bad[index]}" for index in sorted(bad)]


def _first_shape(images: EncodedImages) -> tuple[int, int]:
    """Return the size of the first readable image."""
    for _, content in images:
        with suppress(errors.InputError, OSError):
            height, width, _ = decode_image(archives.read(content)).shape
            return height, width
    return 1, 1  # any will do: none can be read


def decode_image(content: bytes, size: int | None = None, shape: tuple[int, int] | None = None) -> Array:
    """Decode one image to (h, w, 3) uint8.

    It is turned upright, 16-bit pixels and floats in [0, 1] are scaled, and transparency is put on black. With `shape`
    (h, w) an image of another size is an error.
    """
    try:
        image = _open(content, size)
    except errors.InputError:
        raise
    except Exception as error:  # Pillow can raise nearly anything for a broken file
        raise errors.InputError(f"It is not a complete image ({type(error).__name__}).") from None
    if size is not None:
        image = ImageOps.fit(image, (size, size), Image.Resampling.BICUBIC)
    pixels = np.asarray(image)
    if shape is not None and pixels.shape[:2] != shape:
        sizes = f"{pixels.shape[1]} x {pixels.shape[0]} pixels, but the first image has {shape[1]} x {shape[0]}"
        raise errors.InputError(f"It has {sizes}. {RESIZE}")
    return pixels


def _open(content: bytes, size: int | None) -> Image.Image:
    """Return an image upright and in RGB; the original, which may be large, is freed."""
    with Image.open(io.BytesIO(content)) as image:
        if image.width * image.height > MAX_PIXELS:
            raise errors.InputError(f"It is too large, {image.width} x {image.height} pixels.")
        if size is not None:
            image.draft("RGB", (2 * size, 2 * size))  # decodes a large JPEG at a fraction of its size
        image.load()
        with suppress(Exception):  # a complete image may have broken EXIF data
            ImageOps.exif_transpose(image, in_place=True)
        return _rgb(image)


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I") or image.mode == "F":
        white = 1 if image.mode == "F" else 65535
        values = np.array(image, np.float32)
        if not (values.min() >= 0 and values.max() <= white):
            raise errors.InputError(f"Its pixels (mode {image.mode}) are not all in [0, {white}].")
        values *= 255  # in place: it may be large
        values /= white
        image = Image.fromarray(values.round(out=values).astype(np.uint8))
    if image.has_transparency_data:
        black, over = Image.new("RGB", image.size), image if image.mode == "RGBA" else image.convert("RGBA")
        black.paste(over, mask=over)
        return black
    return image if image.mode == "RGB" else image.convert("RGB")
