"""What a release publishes: it builds alike twice, and its links start from one address."""

import email
import json
import re
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "release")]

pytest.importorskip("hatchling")
import check as release  # noqa: E402
import migrations  # noqa: E402
from extras import USES  # noqa: E402
from hatch_build import urls, with_absolute_links  # noqa: E402

ADDRESS = "https://example.org/them/tellmost"


def test_a_release_without_a_public_address_is_refused(tmp_path):
    text = (ROOT / "pyproject.toml").read_text()
    assert len(re.findall(r'^address = ".*"', text, re.MULTILINE)) == 1
    for address in ("", "http://example.org"):
        line = f'address = "{address}"'
        (tmp_path / "pyproject.toml").write_text(re.sub(r'address = ".*"', line, text))
        with pytest.raises(release.NotReady, match="no public address"):
            release.check_address(tmp_path)
    (tmp_path / "pyproject.toml").write_text(
        re.sub(r'address = ".*"', f'address = "{ADDRESS}/"', text)
    )
    assert release.check_address(tmp_path) == ADDRESS


def test_links_of_the_readme_start_from_the_address():
    readme = (ROOT / "README.md").read_text()
    text = with_absolute_links(readme, ADDRESS)
    assert with_absolute_links(readme, "") == readme
    assert f"({ADDRESS}/blob/main/docs/noise.md)" in text
    assert re.search(rf"!\[[^]]*\]\({ADDRESS}/raw/main/docs/", text)
    assert not re.findall(r"\]\((?!https?:|#)[^)]*\)", text)
    assert all(url.startswith(ADDRESS) for url in urls(ADDRESS).values())


def test_a_picture_that_is_a_link_gets_both_addresses():
    text = with_absolute_links(
        "[![x](docs/x.svg)](docs/x.md) [y](#here) [z](https://z.org)", ADDRESS
    )
    assert f"[![x]({ADDRESS}/raw/main/docs/x.svg)]({ADDRESS}/blob/main/docs/x.md)" in text
    assert "[y](#here) [z](https://z.org)" in text


def test_what_the_pages_show_of_peers_is_what_was_run():
    kept = json.loads(migrations.RESULTS.read_text())
    pages = {peer.page for peer in migrations.PEERS.values()}
    shown = {name: block for page in pages for name, block in migrations.blocks_of(page).items()}
    for name in migrations.PEERS:
        said = f"{name} changed on its page: run python release/migrations.py {name}"
        assert kept[name]["digest"] == migrations.digest_of(shown[name]), said
    texts = "".join((ROOT / "docs" / page).read_text() for page in pages)
    unexecuted = re.findall(r"^```py\n# ([\w ]+)", texts, re.MULTILINE)
    assert set(unexecuted) == {*migrations.PEERS, "Lightly"}


def test_submodlib_picked_what_we_pick():
    names: dict = {}
    for block in migrations.BLOCK.findall((ROOT / "docs" / "coming-from.md").read_text()):
        if block.startswith("import ") or 'rule="itl-y"' in block:
            exec(block, names)
    kept = json.loads(migrations.RESULTS.read_text())["submodlib"]["chose"]
    assert names["rows"].tolist() == kept


def test_every_extra_has_a_use_that_is_tried_where_it_is_installed_alone():
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = extras["optional-dependencies"].keys() - {"docs", "release", "test"}
    assert USES.keys() == extras
    kept = json.loads((ROOT / "release" / "matrix.json").read_text())["extras"]
    assert {name for name, row in kept.items() if row["works"]} == extras


@pytest.mark.builds_site
def test_two_builds_are_equal_and_have_what_they_should(tmp_path):
    digests = release.check_builds(tmp_path / "first", tmp_path / "second")
    assert len(digests) == 4
    dist = tmp_path / "first" / "dist"
    release.check_description(dist)
    [wheel] = dist.glob("tellmost-*.whl")
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        [metadata] = [name for name in names if name.endswith("/METADATA")]
        described = email.message_from_bytes(file.read(metadata))
    assert "tellmost/py.typed" in names and any(name.endswith("LICENSE") for name in names)
    assert "tm.select(pool, targets" in described.get_payload()
    [sdist] = dist.glob("tellmost-*.tar.gz")
    with tarfile.open(sdist) as file:
        inside = {name.split("/", 1)[1] for name in file.getnames()}
    assert {"hatch_build.py", "README.md", "src/tellmost/py.typed"} <= inside
