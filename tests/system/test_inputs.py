"""Input patterns and lines."""

import bz2
import gzip
import io
import lzma
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

from command_line import errors
from system import inputs


def test_literal_path_wins_over_pattern(tmp_path):
    for name in ("corpus_v[1].txt", "corpus_v1.txt"):
        (tmp_path / name).write_text("x\n")
    assert inputs.expand("input_file", f"{tmp_path}/corpus_v[1].txt") == [
        f"{tmp_path}/corpus_v[1].txt"
    ]
    (tmp_path / "corpus_v[1].txt").unlink()
    assert inputs.expand("input_file", f"{tmp_path}/corpus_v[1].txt") == [
        f"{tmp_path}/corpus_v1.txt"
    ]


def test_a_comma_in_a_literal_path(tmp_path):
    (tmp_path / "a,b.txt").write_text("x\n")
    assert inputs.expand("input_file", f"{tmp_path}/a,b.txt") == [f"{tmp_path}/a,b.txt"]


def test_items_keep_their_order_and_matches_are_sorted(tmp_path):
    for name in ("b2.txt", "b1.txt", "a.txt", "b3.md"):
        (tmp_path / name).write_text("x\n")
    (tmp_path / "b0.txt").mkdir()
    found = inputs.expand("input_file", f"{tmp_path}/b*.txt, {tmp_path}/a.txt,")
    assert found == [f"{tmp_path}/{name}" for name in ("b1.txt", "b2.txt", "a.txt")]


def test_a_file_named_twice_is_read_twice_with_a_warning(tmp_path, caplog):
    (tmp_path / "a.txt").write_text("x\n")
    found = inputs.expand("input_file", f"{tmp_path}/a.txt,{tmp_path}/*.txt")
    assert found == [f"{tmp_path}/a.txt"] * 2
    assert "2 times" in caplog.text


def test_each_item_without_a_match_is_named(tmp_path):
    (tmp_path / "a.txt").write_text("x\n")
    with pytest.raises(errors.UserError) as error:
        inputs.expand("input_file", f"{tmp_path}/a.txt,{tmp_path}/n[1],{tmp_path}/m*")
    message = str(error.value)
    assert "--input_file" in message
    assert f"{tmp_path}/n[1]" in message and f"{tmp_path}/m*" in message
    assert "a.txt" not in message


@pytest.mark.parametrize("value", ["", " , "])
def test_no_item_at_all(value):
    with pytest.raises(errors.UserError, match="--input_file.*names no file"):
        inputs.expand("input_file", value)


def test_a_directory(tmp_path):
    with pytest.raises(errors.UserError, match="is a directory"):
        inputs.expand("input_file", str(tmp_path))


ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = "a\r\n\n\u2028b\x85c\x0cd\nlast".encode()
LINES = [b"a\r", b"", "\u2028b\x85c\x0cd".encode(), b"last"]


def test_lines_end_at_line_feed_only(tmp_path):
    (tmp_path / "t.txt").write_bytes(TEXT)
    assert list(inputs.read_lines(str(tmp_path / "t.txt"))) == LINES
    (tmp_path / "t.txt").write_bytes(TEXT + b"\n")
    assert list(inputs.read_lines(str(tmp_path / "t.txt"))) == LINES


def test_gzip(tmp_path):
    (tmp_path / "t.txt.gz").write_bytes(gzip.compress(TEXT))
    assert list(inputs.read_lines(str(tmp_path / "t.txt.gz"))) == LINES


def test_gzip_is_told_by_its_first_bytes(tmp_path):
    (tmp_path / "plain.txt").write_bytes(gzip.compress(TEXT))
    assert list(inputs.read_lines(str(tmp_path / "plain.txt"))) == LINES
    assert inputs.read_bytes(str(tmp_path / "plain.txt")) == TEXT
    (tmp_path / "short.txt").write_bytes(b"\x1f")
    assert inputs.read_bytes(str(tmp_path / "short.txt")) == b"\x1f"


def test_files_of_other_programs_are_named(tmp_path):
    """Compressed in another way, or not text at all."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("t.txt", TEXT)
    for name, content, message in (
        ("t.zip", archive.getvalue(), "a zip archive or a spreadsheet; unpack it with unzip"),
        ("t.bz2", bz2.compress(TEXT), "compressed with bzip2; unpack it with bunzip2"),
        ("t.xz", lzma.compress(TEXT), "compressed with xz; unpack it with unxz"),
        ("t.zst", b"\x28\xb5\x2f\xfd\x20", "compressed with zstd; unpack it with unzstd"),
        ("t.txt", "text".encode("utf-16"), "text in UTF-16; save it as UTF-8"),
        ("t.txt", b"PAR1\x15\x04", "a Parquet file, which is read as a table or as questions if"),
    ):
        (tmp_path / name).write_bytes(content)
        for read in (inputs.read_bytes, lambda path: list(inputs.read_lines(path))):
            with pytest.raises(errors.UserError, match=f"{name} is {message}"):
                read(str(tmp_path / name))
    for text in (b"PK", b"BZh9 is a word", b"PAR1"):
        (tmp_path / "t.txt").write_bytes(text)
        assert inputs.read_bytes(str(tmp_path / "t.txt")) == text


@pytest.mark.parametrize(
    "content",
    [TEXT, gzip.compress(TEXT * 99)[:-9], gzip.compress(TEXT)[:12] + b"\xff" * 20],
    ids=["plain", "cut", "damaged"],
)
def test_damaged_gzip_is_named(tmp_path, content):
    path = tmp_path / "t.txt.gz"
    path.write_bytes(content)
    with pytest.raises(errors.UserError, match=str(path)):
        list(inputs.read_lines(str(path)))


def test_urls_go_through_tensorflow():
    import tensorflow as tf

    for name in ("b", "a"):
        with tf.io.gfile.GFile(f"ram://inputs_{name}.txt", "wb") as file:
            file.write(TEXT)
    with tf.io.gfile.GFile("ram://inputs_c.txt.gz", "wb") as file:
        file.write(gzip.compress(TEXT))
    assert inputs.expand("input_file", "ram://inputs_b.txt,ram://inputs_c.txt.gz") == [
        "ram://inputs_b.txt",
        "ram://inputs_c.txt.gz",
    ]
    assert list(inputs.read_lines("ram://inputs_a.txt")) == LINES
    assert list(inputs.read_lines("ram://inputs_c.txt.gz")) == LINES
    with pytest.raises(errors.UserError, match="ram://missing"):
        inputs.expand("input_file", "ram://missing")


def test_local_files_need_no_tensorflow(tmp_path):
    (tmp_path / "t.txt").write_bytes(TEXT)
    code = (
        "import sys; from system import inputs; path = inputs.expand('f', sys.argv[1])[0];"
        "list(inputs.read_lines(path));"
        "sys.exit('tensorflow' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, f"{tmp_path}/t.*"], check=True, cwd=ROOT)


def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(errors.UserError, match="no file matches"):
        inputs.expand("input_file", str(tmp_path / "pipe"))
