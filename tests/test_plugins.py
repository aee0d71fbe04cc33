"""Plug-ins of installed packages: those that work are found, those that are broken do no harm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import bestarm as ba
from bestarm.cli.doctor import examine
from bestarm.plugins import load_plugin, plugins
from bestarm.policies import all_policies, find_policy
from bestarm.storage.opening import open_storage
from tests.installed import install as put_package

Install = Callable[[str, str], None]

WORKING = '''
import bestarm as ba

class Guess(ba.Policy):
    """Answers arm 0."""
    name = "guess"

    def propose(self):
        return ba.Stop(0)
'''


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put a package on the path, as pip would: `install(entry_points, source of its module plugin_for_tests)`."""

    def put(entry_points: str, source: str) -> None:
        put_package(tmp_path, entry_points, name="plugin-for-tests", plugin_for_tests=source)
        monkeypatch.syspath_prepend(tmp_path)

    yield put
    import sys

    sys.modules.pop("plugin_for_tests", None)


def test_a_policy_of_an_installed_package_is_found_by_name(install: Install) -> None:
    install("[bestarm.policies]\nguess = plugin_for_tests:Guess\n", WORKING)
    assert find_policy("guess").name == "guess"
    assert all_policies()["guess"] is find_policy("guess")
    assert ba.simulate(ba.instance("exp1-a"), policy="guess", runs=2).answer_counts == {"arm 1": 2}


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import missing_for_tests", "ModuleNotFoundError: No module named 'missing_for_tests'"),
        ("raise SystemExit", "SystemExit"),
        ("Guess = 5", "it is not a subclass of bestarm.Policy"),
        ("", "AttributeError: module 'plugin_for_tests' has no attribute 'Guess'"),
    ],
)
def test_a_broken_policy_is_in_nobodys_way_and_says_what_is_wrong(install: Install, source: str, why: str) -> None:
    install("[bestarm.policies]\nguess = plugin_for_tests:Guess\ncertify = plugin_for_tests:Guess\n", source)
    assert find_policy("certify").__module__ == "bestarm.policies.certify"
    assert "guess" not in all_policies()
    with pytest.raises(ba.InvalidInput) as caught:
        find_policy("guess")
    assert str(caught.value) == (
        f"policy = 'guess': the plug-in plugin_for_tests:Guess of plugin-for-tests is broken: {why}"
    )
    with pytest.raises(ba.InvalidInput) as caught:
        find_policy("lucb")
    assert str(caught.value).endswith(f"tf-lucb; broken: guess ({why})")


def test_a_broken_storage_leaves_the_others_alone(install: Install, tmp_path: Path) -> None:
    install("[bestarm.storages]\nclay = plugin_for_tests:open\n", "import missing_for_tests")
    open_storage(tmp_path / "studies.db", create=True).close()
    with pytest.raises(ba.InvalidInput, match="storage = 'clay': the plug-in plugin_for_tests:open of"):
        open_storage("clay://tablet")


def test_listing_loads_nothing(install: Install) -> None:
    install("[bestarm.colors]\nred = plugin_for_tests:red\nblue = plugin_for_tests:blue\n", "red = 7")
    found = plugins("bestarm.colors")
    assert {name: plugin.source for name, plugin in found.items()} == {
        "red": "plugin_for_tests:red of plugin-for-tests",
        "blue": "plugin_for_tests:blue of plugin-for-tests",
    }
    assert (found["red"].error, load_plugin("bestarm.colors", "red")) == (None, 7)
    assert load_plugin("bestarm.colors", "green") is None


def test_doctor_reports_the_plugins(install: Install, tmp_path: Path) -> None:
    install(
        "[bestarm.policies]\nguess = plugin_for_tests:Guess\nbad = plugin_for_tests:np\n"
        "[bestarm.commands]\nsing = plugin_for_tests:sing\n",
        WORKING + "import numpy as np\n",
    )
    found = {finding.part: finding for finding in examine(str(tmp_path / "none.db"))}
    assert found["policy guess"].state == "ok"
    assert found["policy bad"].detail.endswith("cannot be used: it is not a subclass of bestarm.Policy")
    assert found["command sing"].state == "broken"
