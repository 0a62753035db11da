"""Contact sheets: one picture of a dataset, with a row for each class."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from evenhand import errors
from evenhand.datasets.dataset import Dataset, rows_by_class

GAP, MARGIN, INK = 2, 12, (32, 32, 32)
MIN_SIDE = 48  # pixels of an image on the sheet, about
MAX_COLUMNS = 4  # of classes


def write_contact_sheet(dataset: Dataset, path: Path, images: int = 10) -> None:
    """Write a picture with the name and the first training images of every class."""
    errors.whole("The number of 'images' per class", images, 1, 100)
    if len(dataset.shape) != 3:
        raise errors.InputError(f"{dataset.name} holds vectors, which cannot be shown as images.")
    page = draw_contact_sheet(dataset, images)
    try:
        page.save(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise errors.RunError(f"{path} cannot be written: {reason}.") from None


def draw_contact_sheet(dataset: Dataset, images: int) -> Image.Image:
    """Draw the name and the first `images` training images of every class."""
    count, font = len(dataset.classes), ImageFont.load_default(13)
    scale = max(1, round(MIN_SIDE / dataset.shape[1]))
    height, width = scale * dataset.shape[1], scale * dataset.shape[2]
    columns = min(MAX_COLUMNS, -(-count // 20))
    rows = -(-count // columns)
    text = 16 + max(int(font.getlength(_label(dataset, c))) for c in range(count))
    cell = text + images * (width + GAP) + 2 * MARGIN
    head = 40
    page = Image.new("RGB", (columns * cell + MARGIN, head + rows * (height + GAP) + MARGIN), "white")
    pen = ImageDraw.Draw(page)
    title = f"{dataset.name}: {len(dataset.train_y)} + {len(dataset.test_y)} images, {count} classes"
    pen.text((MARGIN, MARGIN), f"{title}, {' x '.join(map(str, dataset.shape))}", INK, font)
    for c, members in enumerate(rows_by_class(dataset.train_y, count)):
        left, top = MARGIN + (c // rows) * cell, head + (c % rows) * (height + GAP)
        pen.text((left, top + height // 2 - 8), _label(dataset, c), INK, font)
        for position, row in enumerate(members[:images].tolist()):
            page.paste(_picture(dataset.train_x[row], scale), (left + text + position * (width + GAP), top))
    return page


def _label(dataset: Dataset, number: int) -> str:
    name = dataset.classes[number]
    return name if len(name) <= 24 else name[:23] + "…"


def _picture(x: Tensor, scale: int) -> Image.Image:
    """Show the first three channels in colour, or the first one in grey if there are fewer."""
    x = x[:3] if len(x) >= 3 else x[:1]
    pixels = (x if x.dtype == torch.uint8 else (x * 255).round().byte()).numpy()
    pixels = np.broadcast_to(pixels, (3, *pixels.shape[1:])).transpose(1, 2, 0)
    image = Image.fromarray(np.ascontiguousarray(pixels))
    return image.resize((scale * image.width, scale * image.height), Image.Resampling.NEAREST)
