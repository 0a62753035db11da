"""Encoded images: PNG, JPEG, WebP and others, decoded by several threads straight into a mapped array."""

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

from evenhand import errors
from evenhand.datasets import archives

Listen = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""

LARGEST = 1 << 26  # pixels; a picture that claims more is a mistake or an attack
ORIENTATION = 0x0112  # what EXIF calls it, and what makes an image upright
TURNS: dict[Any, Image.Transpose] = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True)
class Encoded:
    """Images that are still files.

    Parameters
    ----------
    names
        What the images are called when one of them cannot be read.
    read
        Returns the bytes of the image with this number.
    size
        The side of the square that all are brought to: the shorter side is scaled, the longer one cut. None keeps
        their size, which must then be the same for all.
    skip_bad
        Leave out what cannot be read, and say so. None where no image may be missing, as in datasets that are known.
    """

    names: Sequence[str]
    read: Callable[[int], bytes]
    size: int | None = None
    skip_bad: bool | None = None

    def decode(self, path: Path, listen: Listen) -> tuple["np.ndarray[Any, Any]", list[str]]:
        """Write all images as one array (n, 3, h, w); return which of them were kept, and a note on the others."""
        if not self.names:
            raise errors.InputError("There are no images.")
        bad: dict[int, str] = {}
        shape = self._shape(bad)
        pixels = np.lib.format.open_memmap(path, "w+", np.uint8, (len(self.names), 3, *shape))
        with path.open("r+b") as file:  # a full disk shows here, and not as a signal when pixels are written
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)

        def work(number: int) -> None:
            try:
                pixels[number] = decode(self.read(number), self.size, shape).transpose(2, 0, 1)
            except (errors.InputError, OSError) as error:
                bad[number] = _reason(error)

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for done, _ in enumerate(pool.map(work, range(len(self.names)))):
                if done % 100 == 99 or done + 1 == len(self.names):
                    listen("decoding", done + 1, len(self.names))
        if not bad:
            pixels.flush()
            return np.arange(len(self.names)), []
        return self._without(bad, pixels, path)

    def _shape(self, bad: dict[int, str]) -> tuple[int, int]:
        """The size of all images: the one that is asked for, or that of the first one that can be read."""
        if self.size is not None:
            return self.size, self.size
        for number in range(len(self.names)):
            try:
                height, width = decode(self.read(number)).shape[:2]
                return height, width
            except (errors.InputError, OSError) as error:
                bad[number] = _reason(error)
                if not self.skip_bad:
                    break
        raise self._complaint(bad)

    def _without(
        self, bad: dict[int, str], pixels: "np.memmap[Any, Any]", path: Path
    ) -> tuple["np.ndarray[Any, Any]", list[str]]:
        if not self.skip_bad or len(bad) == len(self.names):
            raise self._complaint(bad)
        kept = np.setdiff1d(np.arange(len(self.names)), sorted(bad))
        whole = path.with_name(f"whole-{path.name}")
        path.rename(whole)
        np.save(path, pixels[kept])
        whole.unlink()
        return kept, [f"Skipped {self.names[number]}: {bad[number]}" for number in sorted(bad)]

    def _complaint(self, bad: dict[int, str]) -> errors.InputError:
        first = min(bad)
        others = f", nor can {len(bad) - 1} others" if len(bad) > 1 else ""
        said = f"{self.names[first]} cannot be used{others}: {bad[first]}"
        if self.skip_bad is None:
            return archives.DamagedError(said)
        then = "There is none left." if self.skip_bad else "Mend or remove them, or use --skip-bad."
        return errors.InputError(f"{said} {then}")


def decode(content: bytes, size: int | None = None, shape: tuple[int, int] | None = None) -> "np.ndarray[Any, Any]":
    """Decode one image to (h, w, 3) uint8: upright, sixteen bits or floats in [0, 1] scaled, transparency on black."""
    try:
        plain = _read(content, size)
    except errors.InputError:
        raise
    except Exception as error:  # Pillow's readers raise nearly anything for a broken file
        raise errors.InputError(f"It is no whole image ({type(error).__name__}).") from None
    if size is not None:
        plain = ImageOps.fit(plain, (size, size), Image.Resampling.BICUBIC)
    pixels = np.asarray(plain)
    if shape is not None and pixels.shape[:2] != shape:
        sizes = f"{pixels.shape[1]} x {pixels.shape[0]} pixels, the first one {shape[1]} x {shape[0]}"
        raise errors.InputError(f"It has {sizes}. Use --size to bring all to one size.")
    return pixels


def _read(content: bytes, size: int | None) -> Image.Image:
    """One image, upright and in RGB; what it was made from is freed, since it may be as large as we take."""
    with Image.open(io.BytesIO(content)) as image:
        if image.width * image.height > LARGEST:
            raise errors.InputError(f"It has {image.width} x {image.height} pixels.")
        if size is not None:
            image.draft("RGB", (2 * size, 2 * size))  # lets a large JPEG be decoded at a fraction of its size
        image.load()
        plain, turn = _rgb(image), None
        with suppress(Exception):  # a whole image may have broken EXIF data
            turn = TURNS.get(image.getexif().get(ORIENTATION))
    return plain if turn is None else plain.transpose(turn)


def _reason(error: errors.InputError | OSError) -> str:
    return f"{error.strerror or error}." if isinstance(error, OSError) else str(error)


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I") or image.mode == "F":
        most = 1 if image.mode == "F" else 65535
        values = np.array(image, np.float32)
        if not (values.min() >= 0 and values.max() <= most):
            raise errors.InputError(f"Its pixels of the kind {image.mode} are not numbers from 0 to {most}.")
        values *= 255  # in place: it may be large
        values /= most
        image = Image.fromarray(values.round(out=values).astype(np.uint8))
    if image.has_transparency_data:
        black, over = Image.new("RGB", image.size), image if image.mode == "RGBA" else image.convert("RGBA")
        black.paste(over, mask=over)
        return black
    return image if image.mode == "RGB" else image.convert("RGB")
