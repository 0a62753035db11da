"""The pipelines `crop` and `scr`, one image after the other in float64, from the numbers drawn for it.

Images are nested lists [channel][row][column] of floats; a draw is a dictionary of numbers in [0, 1) as they came from
the generator, but for the shifts of `crop` and the order of the jitter, which are integers.
"""

import math

from reference import images


def scaled(box, height, width):
    """Scale [row][column] to another size: the value at each pixel's centre from the four around it, edges repeated."""
    rows, columns = len(box), len(box[0])
    result = []
    for i in range(height):
        y = min(max((i + 0.5) * rows / height - 0.5, 0.0), rows - 1.0)
        top = math.floor(y)
        bottom = min(top + 1, rows - 1)
        line = []
        for j in range(width):
            x = min(max((j + 0.5) * columns / width - 0.5, 0.0), columns - 1.0)
            left = math.floor(x)
            right = min(left + 1, columns - 1)
            above = box[top][left] + (x - left) * (box[top][right] - box[top][left])
            below = box[bottom][left] + (x - left) * (box[bottom][right] - box[bottom][left])
            line.append(above + (y - top) * (below - above))
        result.append(line)
    return result


def mirrored(image):
    return [[row[::-1] for row in channel] for channel in image]


def tried(height, width, area, ratio):
    """The height and width of one try, or None if it does not lie in the image."""
    pixels, shape = height * width * (0.2 + 0.8 * area), (3 / 4) ** (1 - ratio) * (4 / 3) ** ratio
    rows, columns = round(math.sqrt(pixels / shape)), round(math.sqrt(pixels * shape))
    return (rows, columns) if 1 <= rows <= height and 1 <= columns <= width else None


def first_box(height, width, draw):
    """Top, left, height and width of the first try that lies in the image, or of all of it."""
    rows, columns = height, width
    for area, ratio in zip(draw["areas"], draw["ratios"], strict=True):
        box = tried(height, width, area, ratio)
        if box is not None:
            rows, columns = box
            break
    return int(draw["top"] * (height - rows + 1)), int(draw["left"] * (width - columns + 1)), rows, columns


def crop(image, draw):
    """Shift over a black border, then flip."""
    return images.shifted(image, draw["down"], draw["right"], draw["flip"] < 0.5)


def resized_crop(image, draw):
    height, width = len(image[0]), len(image[0][0])
    top, left, rows, columns = first_box(height, width, draw)
    boxes = [[row[left : left + columns] for row in channel[top : top + rows]] for channel in image]
    stretched = [scaled(box, height, width) for box in boxes]
    return mirrored(stretched) if draw["flip"] < 0.5 else stretched


def jitter(image, draw):
    """Four steps in the order drawn, or none of them; then grey, or not."""
    width = len(image[0][0])
    pixels = [list(pixel) for rows in zip(*image, strict=True) for pixel in zip(*rows, strict=True)]
    if draw["chosen"] < 0.8:
        for kind in draw["order"]:
            pixels = images.jittered(pixels, kind, 2 * draw["strengths"][kind] - 1)
    if draw["grey"] < 0.2 and len(image) == 3:
        pixels = [[images.luma(*pixel)] * 3 for pixel in pixels]
    flat = [list(channel) for channel in zip(*pixels, strict=True)]
    return [[channel[i : i + width] for i in range(0, len(channel), width)] for channel in flat]


def scr(image, draw):
    return jitter(resized_crop(image, draw), draw)
