import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from datasets.makers import encode, flat, noise, quiet
from evenhand.datasets import decoding
from evenhand.datasets.decoding import decode_image as decode
from evenhand.errors import InputError


def colour(image, kind="PNG", **options):
    """The one colour of an image after it was written and decoded."""
    pixels = decode(encode(image, kind, **options))
    assert pixels.dtype == np.uint8
    assert pixels.shape == (image.height, image.width, 3)
    assert (pixels == pixels[0, 0]).all()
    return pixels[0, 0].tolist()


def sixteen(values, order="<"):
    return Image.fromarray(np.array(values, f"{order}u2"))


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM"])
def test_colours_stay_as_they_are(kind):
    pixels = noise(5, 7, 3)
    assert np.array_equal(decode(encode(pixels, kind)), pixels)


def test_lossless_webp_stays_as_it_is():
    pixels = noise(5, 7, 3)
    assert np.array_equal(decode(encode(pixels, "WEBP", lossless=True)), pixels)


def test_grey_becomes_three_equal_colours():
    pixels = noise(5, 7)
    for kind in ("PNG", "TIFF", "BMP", "PPM", "GIF"):
        assert np.array_equal(decode(encode(pixels, kind)), np.stack([pixels] * 3, -1))


def test_transparency_lies_on_black():
    assert colour(Image.new("RGBA", (3, 2), (200, 100, 50, 255))) == [200, 100, 50]
    assert colour(Image.new("RGBA", (3, 2), (200, 100, 50, 128))) == [100, 50, 25]
    assert colour(Image.new("RGBA", (3, 2), (200, 100, 50, 0))) == [0, 0, 0]
    assert colour(Image.new("LA", (3, 2), (200, 51))) == [40, 40, 40]
    assert colour(Image.new("RGBA", (3, 2), (200, 100, 50, 0)), "WEBP", lossless=True) == [0, 0, 0]


def palette(size=(2, 1)):
    image = Image.new("P", size)
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putdata([0, 1])
    return image


def test_palettes():
    assert decode(encode(palette())).tolist() == [[[10, 20, 30], [200, 100, 50]]]
    assert decode(encode(palette(), "GIF")).tolist() == [[[10, 20, 30], [200, 100, 50]]]


def test_palettes_with_transparency():
    assert decode(encode(palette(), transparency=1)).tolist() == [[[10, 20, 30], [0, 0, 0]]]
    assert decode(encode(palette(), transparency=bytes([255, 128]))).tolist() == [[[10, 20, 30], [100, 50, 25]]]
    assert decode(encode(palette(), "GIF", transparency=0)).tolist() == [[[0, 0, 0], [200, 100, 50]]]


def test_one_colour_that_is_transparent():
    pixels = np.array([[[1, 2, 3], [4, 5, 6]]], np.uint8)
    assert decode(encode(pixels, transparency=(1, 2, 3))).tolist() == [[[0, 0, 0], [4, 5, 6]]]


@pytest.mark.parametrize(("kind", "order"), [("PNG", "<"), ("TIFF", "<"), ("TIFF", ">")])
def test_sixteen_bits_are_scaled_to_eight(kind, order):
    values = [[0, 128, 129, 257], [257 * 100, 257 * 100 + 128, 65534, 65535]]
    pixels = decode(encode(sixteen(values, order), kind))
    assert pixels[..., 0].tolist() == [[0, 0, 1, 1], [100, 100, 255, 255]]
    assert (pixels == pixels[..., :1]).all()


def test_thirty_two_bits():
    assert colour(Image.new("I", (2, 2), 25700), "TIFF") == [100, 100, 100]
    with pytest.raises(InputError, match="Its pixels \\(mode I\\) are not all in \\[0, 65535\\]"):
        decode(encode(Image.new("I", (2, 2), 65536), "TIFF"))
    with pytest.raises(InputError, match="Its pixels \\(mode I\\) are not all in \\[0, 65535\\]"):
        decode(encode(Image.new("I", (2, 2), -1), "TIFF"))


def test_floats():
    assert colour(Image.new("F", (2, 2), 0.4), "TIFF") == [102, 102, 102]
    for strange in (1.5, -0.1, float("nan"), float("inf")):
        with pytest.raises(InputError, match="Its pixels \\(mode F\\) are not all in \\[0, 1\\]"):
            decode(encode(Image.new("F", (2, 2), strange), "TIFF"))


def test_one_bit():
    image = Image.new("1", (2, 1))
    image.putdata([0, 255])
    for kind in ("PNG", "BMP", "TIFF"):
        assert decode(encode(image, kind)).tolist() == [[[0, 0, 0], [255, 255, 255]]]


@pytest.mark.parametrize("size", [None, 8])
@pytest.mark.parametrize(
    ("ink", "expected"),
    [((0, 0, 0, 0), (255, 255, 255)), ((0, 255, 255, 0), (255, 0, 0)), ((51, 0, 102, 51), (163, 204, 122))],
)
def test_the_inks_of_printers(ink, expected, size):
    pixels = decode(encode(Image.new("CMYK", (64, 64), ink), "JPEG", quality=100), size)
    assert abs(pixels.astype(int) - expected).max() <= 3


def test_the_first_of_several_pictures():
    pages = [Image.fromarray(np.full((4, 4), grey, np.uint8)) for grey in (10, 20)]
    for kind in ("GIF", "TIFF"):
        assert (decode(encode(pages[0], kind, save_all=True, append_images=pages[1:])) == 10).all()


def turned(orientation, kind="PNG"):
    exif = Image.Exif()
    exif[0x0112] = orientation
    pixels = noise(2, 3, 3)
    return pixels, decode(encode(pixels, kind, exif=exif))


@pytest.mark.parametrize(
    ("orientation", "turn"),
    [
        (1, lambda a: a),
        (2, lambda a: a[:, ::-1]),
        (3, lambda a: a[::-1, ::-1]),
        (4, lambda a: a[::-1]),
        (5, lambda a: a.transpose(1, 0, 2)),
        (6, lambda a: np.rot90(a, -1)),
        (7, lambda a: a[::-1, ::-1].transpose(1, 0, 2)),
        (8, lambda a: np.rot90(a, 1)),
        (0, lambda a: a),
        (99, lambda a: a),
    ],
)
def test_images_come_upright(orientation, turn):
    for kind in ("PNG", "TIFF"):
        pixels, found = turned(orientation, kind)
        assert np.array_equal(found, turn(pixels))


def test_broken_exif_data_do_not_break_an_image():
    pixels = noise(2, 3, 3)
    assert np.array_equal(decode(encode(pixels, exif=b"Exif\0\0garbage of no kind")), pixels)


def test_the_shorter_side_is_scaled_and_the_longer_one_cut():
    parts = [np.full((40, 40, 3), grey, np.uint8) for grey in (0, 100, 200)]
    assert (decode(encode(np.concatenate(parts, 1)), 10)[:, 2:-2] == 100).all()
    assert (decode(encode(np.concatenate(parts, 0)), 10)[2:-2] == 100).all()
    ramp = np.repeat(np.arange(0, 256, 4, dtype=np.uint8)[None], 64, 0)
    small = decode(encode(ramp), 16)[..., 0].astype(int)
    assert abs(small[8] - np.arange(6, 256, 16)).max() <= 2  # each the mean of four neighbours


def test_a_large_jpeg_is_scaled_as_well():
    half = np.concatenate([np.full((800, 400), 50, np.uint8), np.full((800, 400), 200, np.uint8)], 1)
    pixels = decode(encode(half, "JPEG", quality=95), 8)
    assert abs(pixels[:, :3].astype(int) - 50).max() <= 3
    assert abs(pixels[:, 5:].astype(int) - 200).max() <= 3


@pytest.mark.parametrize("size", [(5000, 1), (1, 5000), (1, 1)])
def test_images_of_extreme_shapes(size):
    assert (decode(encode(Image.new("RGB", size, (9, 8, 7))), 32) == [9, 8, 7]).all()


def test_images_that_claim_to_be_huge():
    head = struct.pack(">IIBBBBB", 10_000, 10_000, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + head + struct.pack(">I", zlib.crc32(b"IHDR" + head))
    content = encode(noise(2, 2, 3))
    with pytest.raises(InputError, match="It is too large, 10000 x 10000 pixels|It is not a complete image"):
        decode(content[:8] + chunk + content[33:])
    head = struct.pack(">IIBBBBB", 9_000, 9_000, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + head + struct.pack(">I", zlib.crc32(b"IHDR" + head))
    with pytest.raises(InputError, match="It is too large, 9000 x 9000 pixels"):
        decode(content[:8] + chunk + content[33:])


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP"])
def test_truncated_images(kind):
    content = encode(noise(16, 16, 3), kind)
    for size in (0, 1, 20, len(content) // 2):
        with pytest.raises(InputError, match="It is not a complete image"):
            decode(content[:size])


def decode_all(path, *contents, **options):
    images = [(f"image {number}", content) for number, content in enumerate(contents)]
    return decoding.decode(images, path / "x.npy", quiet, **options)


def test_many_images_are_decoded_in_their_order(tmp_path):
    pixels = noise(150, 4, 5, 3)
    kept, notes = decode_all(tmp_path, *map(encode, pixels))
    assert np.array_equal(np.load(tmp_path / "x.npy"), pixels.transpose(0, 3, 1, 2))
    assert kept.tolist() == list(range(150))
    assert notes == []


def test_what_is_skipped_is_named(tmp_path):
    kept, notes = decode_all(tmp_path, b"", flat(1), flat(2, side=4), flat(3), skip_bad=True)
    assert kept.tolist() == [1, 3]
    assert np.load(tmp_path / "x.npy")[:, 0, 0, 0].tolist() == [1, 3]
    assert notes == [
        "Skipped image 0: It is not a complete image (UnidentifiedImageError).",
        "Skipped image 2: It has 4 x 4 pixels, but the first image has 8 x 8. Use --size to resize all images.",
    ]
    assert [path.name for path in tmp_path.glob("*.npy")] == ["x.npy"]


@pytest.mark.parametrize("size", [None, 8])
def test_files_that_cannot_be_opened(tmp_path, size):
    with pytest.raises(InputError, match=r"^image 0 cannot be used: No such file or directory\. Fix or remove"):
        decode_all(tmp_path, tmp_path / "lost.png", size=size, skip_bad=False)


def test_no_images(tmp_path):
    with pytest.raises(InputError, match="There are no images"):
        decode_all(tmp_path)
