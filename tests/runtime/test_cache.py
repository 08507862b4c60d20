"""The cache's folder of records: round trips, damage, foreign folders, full and missing disks, eviction."""

import errno
import os
import time
import warnings
import zlib
from pathlib import Path

import pytest

from tilewright.runtime import cache
from tilewright.runtime.cache import FOLDER, MAGIC, Store, decode, encode, file_name

FIELDS = {"code": b"\0\xff" * 100, "empty": b""}
posix_only = pytest.mark.skipif(os.name == "nt", reason="modes and owners of POSIX")


@pytest.fixture
def base(tmp_path):
    return tmp_path / "cache"


def files(base):
    return sorted(p for p in (base / FOLDER).iterdir() if p.name != "swept")


def warned(action):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = action()
    return result, [str(w.message) for w in found]


def test_round_trip_and_a_second_process(base):
    store = Store(base)
    assert store.get("k", "key") is None
    store.put("k", "key", FIELDS)
    assert store.get("k", "key") == Store(base).get("k", "key") == FIELDS
    assert store.get("k", "key2") is None and store.get("other", "key") is None
    assert [(r.name, r.key, r.fields) for r in store.records()] == [("k", "key", FIELDS)]
    store.put("k", "key", {"code": b"new"})
    assert store.get("k", "key") == {"code": b"new"} and len(files(base)) == 1
    assert store.clear() == 1 and store.get("k", "key") is None and not list(store.records())


def test_names_and_keys_of_any_kind(base):
    store = Store(base)
    for name, key in (("<lambda>/../x", "é\udc80\n"), ("n" * 500, ""), ("", "k")):
        store.put(name, key, FIELDS)
        assert store.get(name, key) == FIELDS
    assert all(p.parent == base / FOLDER for p in files(base))


def test_equal_file_names_of_different_keys_are_not_confused(base, monkeypatch):
    monkeypatch.setattr(cache, "file_name", lambda name, key: "same.rec")
    store = Store(base)
    store.put("k", "a", {"x": b"1"})
    assert store.get("k", "b") is None
    store.put("k", "b", {"x": b"2"})
    assert store.get("k", "a") is None and store.get("k", "b") == {"x": b"2"}


def test_every_damage_is_noticed(base):
    whole = encode("key", FIELDS)
    assert decode(whole) == ("key", FIELDS)
    for damaged in (whole[:-1], whole + b"\0", b"", whole[:len(MAGIC) + 6], b"x" + whole[1:],
                    *(whole[:k] + bytes([whole[k] ^ 4]) + whole[k + 1:] for k in range(len(whole)))):
        with pytest.raises(ValueError):
            decode(damaged)


def test_a_damaged_record_is_removed_and_made_again(base):
    store = Store(base)
    store.put("k", "key", FIELDS)
    (path,) = files(base)
    content = path.read_bytes()
    path.write_bytes(content[:len(content) // 2])
    assert store.get("k", "key") is None and not path.exists()
    store.put("k", "key", FIELDS)
    assert store.get("k", "key") == FIELDS


@posix_only
def test_modes(base):
    Store(base).put("k", "key", FIELDS)
    assert base.stat().st_mode & 0o777 == 0o700
    assert (base / FOLDER).stat().st_mode & 0o777 == 0o700
    assert [p.stat().st_mode & 0o777 for p in files(base)] == [0o600]


def open_base(base):
    base.chmod(0o777)


def open_folder(base):
    (base / FOLDER).chmod(0o755)


def linked_base(base):
    base.rename(base.with_name("real"))
    base.symlink_to(base.with_name("real"))


def linked_folder(base):
    (base / FOLDER).rename(base / "real")
    (base / FOLDER).symlink_to(base / "real")


def no_folder(base):
    base.rename(base.with_name("real"))
    base.write_text("a file")


@posix_only
@pytest.mark.parametrize(("change", "said"), [(open_base, "mode 777"), (open_folder, "mode 755"),
                                              (linked_base, "symbolic link"), (linked_folder, "symbolic link"),
                                              (no_folder, "exists|folder")])
def test_a_folder_that_is_not_ours_alone_is_not_used_and_said_once(base, change, said):
    Store(base).put("k", "key", FIELDS)
    change(base)
    store = Store(base)
    result, messages = warned(lambda: (store.get("k", "key"), store.put("k", "new", FIELDS), store.get("k", "new")))
    assert result == (None, None, None)
    assert len(messages) == 1 and __import__("re").search(said, messages[0])
    assert store.folder is None


@posix_only
def test_another_users_folder_or_file(base, monkeypatch):
    Store(base).put("k", "key", FIELDS)
    store = Store(base)
    assert store.get("k", "key") == FIELDS
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    result, messages = warned(lambda: (store.get("k", "key"), Store(base).get("k", "key")))
    assert result == (None, None)
    assert "not a file of this user" in messages[0] and "belongs to another user" in messages[1]


@posix_only
def test_a_linked_file_is_not_read(base, tmp_path):
    store = Store(base)
    store.put("k", "key", FIELDS)
    (path,) = files(base)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert warned(lambda: store.get("k", "key"))[0] is None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_disk_that_takes_nothing(base, monkeypatch, number):
    store = Store(base)
    store.put("k", "old", FIELDS)

    def full(path, content):
        path.write_bytes(content[:10])
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(cache, "_write_new", full)
    _, messages = warned(lambda: [store.put("k", f"new{k}", FIELDS) for k in range(3)])
    assert len(messages) == 1 and os.strerror(number) in messages[0]
    assert store.get("k", "old") == FIELDS and len(files(base)) == 1      # still read, and nothing half is left


def test_no_place_for_the_folder(tmp_path):
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "cache")
    _, messages = warned(lambda: (store.put("k", "key", FIELDS), store.get("k", "key"), list(store.records())))
    assert len(messages) == 1 and "what is compiled is not kept" in messages[0]


def test_a_warning_is_at_the_line_of_the_program(base):
    base.write_text("")
    with pytest.warns(RuntimeWarning) as found:
        Store(base).put("k", "key", FIELDS)
    assert found[0].filename == __file__


def test_no_folder_at_all():
    store = Store(None)
    result = warned(lambda: (store.put("k", "key", FIELDS), store.get("k", "key"), store.clear()))
    assert result == ((None, None, 0), [])


def test_looking_makes_no_folder(base):
    assert list(Store(base).records()) == [] and Store(base).clear() == 0
    assert not base.exists()


def test_eviction_keeps_what_was_used_last(base):
    store = Store(base, limit_bytes=6000)
    for k in range(20):
        store.put("k", f"key{k}", {"code": bytes(500)})
        path = base / FOLDER / file_name("k", f"key{k}")
        if path.exists():
            os.utime(path, (time.time() - 1000 + k,) * 2)
        store.get("k", "key0")          # older than the others, but used
        if (first := base / FOLDER / file_name("k", "key0")).exists():
            assert first.stat().st_mtime > time.time() - 100
    kept = {r.key for r in store.records()}
    assert sum(p.stat().st_size for p in files(base)) <= 6600
    assert "key0" in kept and "key19" in kept and "key1" not in kept


def test_temporary_files_of_the_dead_go(base):
    store = Store(base)
    store.put("k", "key", FIELDS)
    old, new = base / FOLDER / "a.1-1.tmp", base / FOLDER / "b.2-2.tmp"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    store.sweep()
    assert not old.exists() and new.exists() and store.get("k", "key") == FIELDS


def test_checksum_is_over_everything_behind_it():
    content = encode("key", FIELDS)
    assert zlib.crc32(content[len(MAGIC) + 4:]) == int.from_bytes(content[len(MAGIC):len(MAGIC) + 4], "little")
    assert Path(file_name("a b", "x")).suffix == ".rec"
