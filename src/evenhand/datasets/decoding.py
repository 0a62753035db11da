"""Encoded images (PNG, JPEG, WebP, ...), decoded by several threads straight into a memory-mapped array."""

import io
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps
from PIL.Image import Transpose

from evenhand import errors
from evenhand.datasets import archives

Array = np.ndarray[Any, Any]
Progress = Callable[[str, int, int], None]
"""Called with a description of the work, the amount done and the total."""

MAX_PIXELS = 1 << 26  # of one image; more is a mistake or an attack
ORIENTATION = 0x0112  # the EXIF tag
FLIPS = (Transpose.FLIP_LEFT_RIGHT, Transpose.ROTATE_180, Transpose.FLIP_TOP_BOTTOM, Transpose.TRANSPOSE)
TURNS: dict[Any, Transpose] = dict(
    enumerate((*FLIPS, Transpose.ROTATE_270, Transpose.TRANSVERSE, Transpose.ROTATE_90), start=2)
)


@dataclass(frozen=True)
class EncodedImages:
    """Images that are not decoded yet.

    Parameters
    ----------
    names
        Names of the images, for errors.
    content
        Returns the bytes of the image with this index.
    size
        Side of the square to which all are resized: the shorter side is scaled, the longer one cropped. None keeps
        their size, which must then be the same for all.
    skip_bad
        Skip images that cannot be read, and note them. None for known datasets, where no image may be missing.
    """

    names: Sequence[str]
    content: Callable[[int], bytes]
    size: int | None = None
    skip_bad: bool | None = None

    def decode(self, path: Path, progress: Progress) -> tuple[Array, list[str]]:
        """Write all images as one array (n, 3, h, w); return the indices of those kept, and notes on the others."""
        if not self.names:
            raise errors.InputError("There are no images.")
        bad: dict[int, str] = {}
        shape = self._shape(bad)
        pixels = np.lib.format.open_memmap(path, "w+", np.uint8, (len(self.names), 3, *shape))
        with path.open("r+b") as file:  # a full disk raises here, instead of killing the process at a later write
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)

        def work(index: int) -> None:
            try:
                pixels[index] = decode_image(self.content(index), self.size, shape).transpose(2, 0, 1)
            except (errors.InputError, OSError) as error:
                bad[index] = _reason(error)

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for done, _ in enumerate(pool.map(work, range(len(self.names))), start=1):
                if done % 100 == 0 or done == len(self.names):
                    progress("decoding", done, len(self.names))
        if not bad:
            pixels.flush()
            return np.arange(len(self.names)), []
        if not self.skip_bad or len(bad) == len(self.names):
            raise self._error(bad)
        kept = np.setdiff1d(np.arange(len(self.names)), sorted(bad))
        path.unlink()  # the mapped pixels stay readable
        np.save(path, pixels[kept])
        return kept, [f"Skipped {self.names[index]}: {bad[index]}" for index in sorted(bad)]

    def _shape(self, bad: dict[int, str]) -> tuple[int, int]:
        """Return the requested size, or that of the first readable image."""
        if self.size is not None:
            return self.size, self.size
        for index in range(len(self.names)):
            try:
                height, width = decode_image(self.content(index)).shape[:2]
                return height, width
            except (errors.InputError, OSError) as error:
                bad[index] = _reason(error)
                if not self.skip_bad:
                    break
        raise self._error(bad)

    def _error(self, bad: dict[int, str]) -> errors.InputError:
        first = min(bad)
        others = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        sentence = f"{self.names[first]}{others} cannot be used: {bad[first]}"
        if self.skip_bad is None:
            return archives.DamagedError(sentence)
        then = "No image is left." if self.skip_bad else "Fix or remove such images, or use --skip-bad."
        return errors.InputError(f"{sentence} {then}")


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
        raise errors.InputError(f"It has {sizes}. Use --size to resize all images.")
    return pixels


def _open(content: bytes, size: int | None) -> Image.Image:
    """Return an image upright and in RGB; the original, which may be large, is freed."""
    with Image.open(io.BytesIO(content)) as image:
        if image.width * image.height > MAX_PIXELS:
            raise errors.InputError(f"It is too large, {image.width} x {image.height} pixels.")
        if size is not None:
            image.draft("RGB", (2 * size, 2 * size))  # decodes a large JPEG at a fraction of its size
        image.load()
        plain, turn = _rgb(image), None
        with suppress(Exception):  # a complete image may have broken EXIF data
            turn = TURNS.get(image.getexif().get(ORIENTATION))
    return plain if turn is None else plain.transpose(turn)


def _reason(error: errors.InputError | OSError) -> str:
    return f"{error.strerror or error}." if isinstance(error, OSError) else str(error)


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
