import io
import tarfile
import zipfile

import pytest

from datasets.makers import below, tar, write, zipped
from evenhand.datasets import archives
from evenhand.errors import InputError

FILES = {"a.txt": b"one\n\n two \n", "b/c.bin": bytes(range(256)) * 9, "b/empty": b""}


def content(path):
    with archives.open_tree(path) as tree:
        return {name: tree.read(name) for name in tree.files}


@pytest.mark.parametrize("top", ["", "./", "top/", "./top/"])
@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz", "zip"])
def test_archives_hold_what_a_folder_holds(tmp_path, top, mode):
    files = {top + name: content for name, content in FILES.items()}
    path = zipped(tmp_path / "x.zip", files) if mode == "zip" else tar(tmp_path / "x.tar", files, mode)
    assert content(path) == FILES
    assert content(write(tmp_path / "folder", FILES)) == FILES


def test_lines_that_are_not_empty(tmp_path):
    with archives.open_tree(write(tmp_path / "folder", FILES)) as tree:
        assert tree.lines("a.txt") == ["one", "two"]
        with pytest.raises(InputError, match=r"folder/b/c\.bin is damaged: it is not a text file"):
            tree.lines("b/c.bin")
        with pytest.raises(InputError, match=r"folder is incomplete: it has no 'b/d'\.$"):
            tree.read("b/d")


def test_files_can_be_read_after_the_archive_was_closed(tmp_path):
    for path in (zipped(tmp_path / "x.zip", FILES), tar(tmp_path / "x.tar", FILES), write(tmp_path / "x", FILES)):
        with archives.open_tree(path) as tree:
            entries = [tree.entry(name) for name in ("b/empty", "b/c.bin")]
        assert [name for name, _ in entries] == [f"{path}/b/empty", f"{path}/b/c.bin"]
        assert [archives.read(content) for _, content in entries] == [b"", FILES["b/c.bin"]]


def test_what_macos_adds_is_left_out(tmp_path):
    path = zipped(tmp_path / "x.zip", {**below("top", FILES), **below("__MACOSX/top", FILES)})
    assert content(path) == FILES


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "top/../../evil"])
@pytest.mark.parametrize("make", [tar, zipped])
def test_paths_that_leave_the_folder(tmp_path, make, name):
    path = make(tmp_path / ("x.zip" if make is zipped else "x.tar"), {**below("top", FILES), name: b"evil"})
    with pytest.raises(InputError, match=rf"holds a file outside its own folder, '{name}'\. Do not trust it\."):
        content(path)
    assert not list(tmp_path.parent.glob("evil"))


def test_links_and_devices_in_a_tar_are_left_out(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for name, kind in (("link", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE), ("pipe", tarfile.FIFOTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, str(secret)
            archive.addfile(member)
        archive.addfile(tarfile.TarInfo("plain"), io.BytesIO())
    assert content(tmp_path / "x.tar") == {"plain": b""}


def test_a_member_of_negative_size_has_an_end(tmp_path):
    """A tar of which the second member, of a kind that nobody knows, leads back to itself."""
    path = tar(tmp_path / "x.tar", {"a": b"1", "b": b"2"}, "w")
    raw = bytearray(path.read_bytes())
    head = raw[1024:1536]
    head[124:136] = (-512 + (1 << 96)).to_bytes(12, "big")
    head[156:157] = b"Z"
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    raw[1024:1536] = head
    path.write_bytes(raw)
    with pytest.raises(InputError, match=r"x\.tar is damaged or incomplete"):
        content(path)


@pytest.mark.parametrize("make", [tar, zipped])
def test_archives_that_hold_too_much(tmp_path, monkeypatch, make):
    monkeypatch.setattr(archives, "MAX_BYTES", 3000)
    path = make(tmp_path / ("x.zip" if make is zipped else "x.tar"), {"a": bytes(1500), "b": bytes(1500)})
    assert len(content(path)) == 2
    make(path, {"a": bytes(1500), "b": bytes(1501)})
    with pytest.raises(InputError, match=r"is too large: its files have more than 2 GB"):
        content(path)


def test_holes_in_a_tar_are_not_filled(tmp_path):
    """A sparse member of a gigabyte, of which nothing is there."""
    member = tarfile.TarInfo("hole")
    member.type = tarfile.GNUTYPE_SPARSE
    head = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    head[483:495] = b"%011o\0" % (1 << 30)
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    path = tar(tmp_path / "x.tar", {"a": b"1"}, "w")
    path.write_bytes(head + path.read_bytes())
    assert content(path) == {"a": b"1"}


def test_a_zip_with_a_password(tmp_path):
    path = zipped(tmp_path / "x.zip", FILES)
    raw = bytearray(path.read_bytes())
    for start in (raw.find(b"PK\x03\x04") + 6, raw.find(b"PK\x01\x02") + 8):
        raw[start] |= 1
    path.write_bytes(raw)
    with pytest.raises(InputError, match=r"x\.zip is damaged or incomplete \(RuntimeError\)"):
        content(path)


def test_a_zip_with_other_bits(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", b"hello hello")
    path.write_bytes(path.read_bytes().replace(b"hello hello", b"hello jello"))
    with pytest.raises(InputError, match=r"x\.zip is damaged or incomplete \(BadZipFile\)\.$"):
        content(path)


def test_an_empty_archive_and_none(tmp_path):
    assert content(tar(tmp_path / "x.tar", {})) == {}
    assert content(zipped(tmp_path / "x.zip", {})) == {}
    for name in ("nothing.tar", "nothing.zip"):
        with pytest.raises(InputError, match=rf"{name} cannot be read: No such file or directory\."):
            content(tmp_path / name)


def test_a_folder_is_walked_in_order_without_hidden_files(tmp_path):
    names = ["b/2", "b/10", "a", "c/.x", ".d/e", "b/.f"]
    write(tmp_path / "folder", dict.fromkeys(names, b""))
    found = [str(path.relative_to(tmp_path / "folder")) for path in archives.walk(tmp_path / "folder")]
    assert found == ["a", "b/10", "b/2"]


def test_folders_that_contain_themselves(tmp_path):
    write(tmp_path / "folder", {"a/1": b"", "b/2": b""})
    for place in ("a/up", "b/up", "b/again"):
        (tmp_path / "folder" / place).symlink_to(tmp_path / "folder")
    found = [str(path.relative_to(tmp_path / "folder")) for path in archives.walk(tmp_path / "folder")]
    assert found == ["a/1", "b/2"]
