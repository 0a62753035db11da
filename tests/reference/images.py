"""Slow augmentation of one image at a time; images are nested lists [channel][row][column] of floats."""

import colorsys


def bilinear(image, row, column):
    """The value of every channel at a fractional place, black outside."""
    height, width = len(image[0]), len(image[0][0])
    values = []
    for channel in image:
        total = 0.0
        for i in range(height):
            for j in range(width):
                total += max(0.0, 1 - abs(row - i)) * max(0.0, 1 - abs(column - j)) * channel[i][j]
        values.append(total)
    return values


def shifted(image, down, right, flip):
    """Move the window over the image; what lies outside is black."""
    height, width = len(image[0]), len(image[0][0])
    result = [[[0.0] * width for _ in range(height)] for _ in image]
    for c in range(len(image)):
        for i in range(height):
            for j in range(width):
                row, column = i + down, (width - 1 - j if flip else j) + right
                if 0 <= row < height and 0 <= column < width:
                    result[c][i][j] = image[c][row][column]
    return result


def cut_and_scaled(image, top, left, box_height, box_width, flip):
    """Cut a box out and scale it to the image's size: pixel centres, edges repeated."""
    height, width = len(image[0]), len(image[0][0])
    box = [[row[left : left + box_width] for row in channel[top : top + box_height]] for channel in image]
    result = [[[0.0] * width for _ in range(height)] for _ in image]
    for i in range(height):
        for j in range(width):
            row = (i + 0.5) * box_height / height - 0.5
            column = ((width - 1 - j if flip else j) + 0.5) * box_width / width - 0.5
            row, column = min(max(row, 0), box_height - 1), min(max(column, 0), box_width - 1)
            for c, value in enumerate(bilinear(box, row, column)):
                result[c][i][j] = value
    return result


def clipped(value):
    return min(1.0, max(0.0, value))


def luma(r, g, b):
    return 0.299 * r + 0.587 * g + 0.114 * b


def turned(r, g, b, turn):
    """One pixel with its hue turned by a fraction of the circle."""
    h, s, v = colorsys.rgb_to_hsv(r, g, b)
    return colorsys.hsv_to_rgb((h + turn) % 1.0, s, v)


def jittered(pixels, kind, u):
    """A list of pixels after one step of the jitter, u in [-1, 1]: 0 brightness, 1 contrast, 2 saturation, 3 hue."""
    greys = [luma(*pixel) if len(pixel) == 3 else pixel[0] for pixel in pixels]
    mean = sum(greys) / len(greys)
    factor = 1 + 0.4 * u
    if kind == 0:
        return [[clipped(factor * v) for v in pixel] for pixel in pixels]
    if kind == 1:
        return [[clipped(mean + factor * (v - mean)) for v in pixel] for pixel in pixels]
    if len(pixels[0]) == 1:
        return pixels
    if kind == 2:
        return [[clipped(g + factor * (v - g)) for v in pixel] for pixel, g in zip(pixels, greys, strict=True)]
    return [turned(*pixel, 0.1 * u) for pixel in pixels]
