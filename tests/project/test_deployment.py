"""The files in `deploy/`, checked as far as that can be done without a container engine or a cluster.

The image's command is acted out in a sandbox: its user, its variables, a root that is read-only, and `/tmp`.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from tests.parts import find_program
from tests.program import bestarm
from tests.tools.patience import PATIENCE
from tests.tools.ports import reserve_port
from tests.tools.postgres import PostgresServer
from typer.main import get_command

import bestarm as ba
from bestarm.cli.app import app
from bestarm.client import Client
from bestarm.web.server import running

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
TOKEN = "correct-horse-battery-staple"
FILES = {path.name: path.read_text(encoding="utf-8") for path in DEPLOY.iterdir() if path.is_file()}


def instructions() -> list[tuple[str, str]]:
    """Those of the image, by their names. Lines that go on are joined."""
    lines = [line for line in FILES["Containerfile"].splitlines() if not line.startswith("#")]
    text = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


def of_the_image(name: str) -> list[str]:
    """What its last stage says."""
    last = max(place for place, (each, _) in enumerate(instructions()) if each == "FROM")
    return [rest for each, rest in instructions()[last:] if each == name]


IMAGE_VARIABLES = dict(pair.split("=", 1) for line in of_the_image("ENV") for pair in shlex.split(line))
KUBERNETES = [*yaml.safe_load_all(FILES["kubernetes.yaml"]), *yaml.safe_load_all(FILES["kubernetes-migrate.yaml"])]
COMPOSE = yaml.safe_load(FILES["compose.yaml"])
UNIT = configparser.ConfigParser(strict=False, interpolation=None)
UNIT.optionxform = str  # type: ignore[assignment,method-assign]
UNIT.read_string(FILES["bestarm.service"])


def containers() -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Each pod of the manifests with its container."""
    for one in KUBERNETES:
        if one["kind"] in ("Deployment", "Job"):
            pod = one["spec"]["template"]["spec"]
            [container] = pod["containers"]
            yield pod, container


def test_every_variable_is_one_of_the_program() -> None:
    group: Any = get_command(app)
    options = group.get_command(None, "serve").params
    known = {option.envvar for option in options} | {"BESTARM_CACHE_DIR"}
    for name, text in FILES.items():
        # A comment warns of the one that Kubernetes sets.
        used = set(re.findall(r"\bBESTARM_[A-Z_]+\b", text))
        assert used <= known, name
    assert any("BESTARM_DB" in text for text in FILES.values())


def accepted(words: list[str], cwd: Path, **environment: Any) -> str:
    """What `serve` would run with, as the arguments and variables of a file say it."""
    ended = bestarm(*words, "--print-config", cwd=cwd, **environment)
    assert (ended.code, ended.err) == (0, ""), ended
    return ended.out


# ---------------------------------------------------------------------------------------------------- the image


def test_the_image(tmp_path: Path, service: str) -> None:
    assert of_the_image("USER") == ["10001:10001"]
    assert json.loads(of_the_image("ENTRYPOINT")[0]) == ["bestarm"]
    said = accepted(json.loads(of_the_image("CMD")[0]), tmp_path, **IMAGE_VARIABLES)
    assert 'host = "0.0.0.0"  # BESTARM_HOST' in said
    assert f"port = {of_the_image('EXPOSE')[0]}  #" in said
    [check] = of_the_image("HEALTHCHECK")
    assert httpx.get(service + address_in(check), timeout=PATIENCE).status_code == 200
    for name, rest in instructions():
        if name == "COPY":
            *sources, _ = rest.split()
            assert [source for source in sources if not (ROOT / source).exists()] == []


def address_in(check: str) -> str:
    found = re.search(r"http://127\.0\.0\.1:8000(/[\w/]+)'", check)
    assert found
    return found[1]


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    """One with a token, which a probe does not have."""
    with running(":memory:", token=TOKEN) as url:
        yield url


@pytest.mark.parts("hadolint")
def test_the_linter_of_images() -> None:
    done = subprocess.run(
        [str(find_program("hadolint")), DEPLOY / "Containerfile"], capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout) == (0, "")


@contextmanager
def sandbox(words: list[str], variables: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """The program in the place of an image: its user, a root that is read-only, /tmp, and no other variables."""
    places = [str(ROOT), sys.prefix, sys.base_prefix, str(Path(ba.__file__).parents[1])]
    command = [
        *(str(find_program("bwrap")), "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        # A checkout may lie in /tmp.
        *("--tmpfs", "/tmp", *(word for place in places for word in ("--ro-bind", place, place))),
        *("--unshare-user", "--uid", "10001", "--gid", "10001", "--unshare-pid", "--chdir", of_the_image("WORKDIR")[0]),
        *("--clearenv", *(word for pair in variables.items() for word in ("--setenv", *pair))),
        *("--setenv", "PYTHONPATH", os.pathsep.join([str(Path(ba.__file__).parents[1]), str(ROOT)])),
        *(sys.executable, *words),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


@pytest.fixture
def in_the_image(missing: Callable[[str, str], None]) -> Callable[..., Any]:
    """Runs the program as the image does. Some machines allow no sandboxes."""
    look = "import os; print(os.getuid()); open('/tmp/x', 'w'); open(os.path.expanduser('~/x'), 'w')"
    with sandbox(["-c", look], {**IMAGE_VARIABLES, "HOME": str(ROOT)}) as process:
        out, err = process.communicate(timeout=PATIENCE)
    if "bwrap:" in err:
        missing("bwrap", f"a sandbox ({err.strip()})")
    assert (out, "Read-only file system" in err) == ("10001\n", True), err
    return sandbox


@pytest.mark.parts("bwrap", "postgresql")
def test_the_image_acted_out(in_the_image: Callable[..., Any], postgres_server: PostgresServer) -> None:
    """As the compose file starts it, but with a database and a port of this test's own."""
    url = postgres_server.new_database()
    there = {"BESTARM_DB": url, "BESTARM_TOKEN": TOKEN, "PGPASSWORD": "in the address"}
    assert set(there) == set(COMPOSE["services"]["bestarm"]["environment"])
    with in_the_image(["-m", "bestarm", "migrate", "--check"], {**IMAGE_VARIABLES, **there}) as process:
        assert "holds no studies yet" in process.communicate(timeout=PATIENCE)[0]
        assert process.returncode == 0
    with reserve_port() as reserved:
        port = str(reserved.getsockname()[1])
        variables = {**IMAGE_VARIABLES, **there, "BESTARM_PORT": port}
        with in_the_image(["-m", "bestarm", *json.loads(of_the_image("CMD")[0])], variables) as process:
            assert process.stderr.readline() == f"bestarm is serving http://0.0.0.0:{port}/\n"
            service = f"http://127.0.0.1:{port}"
            assert (
                httpx.get(f"{service}{address_in(of_the_image('HEALTHCHECK')[0])}", timeout=PATIENCE).status_code == 200
            )
            with Client(service, TOKEN) as client:
                plan = ba.Problem(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Bernoulli()))
                study = client.create(plan, name="cache", delta=0.05)
                study.tell_many([(test, 1) for test in study.ask(4)])
                assert study.status().tests == 4
            allowed = {"Authorization": f"Bearer {TOKEN}"}
            # These go through files.
            exported = httpx.get(f"{service}/api/studies/1/export?format=csv", headers=allowed, timeout=PATIENCE)
            assert exported.text.count("\n") == 5
            added = httpx.post(
                f"{service}/api/studies/1/csv",
                headers=allowed | {"Content-Type": "text/csv"},
                content="arm,metric,value\na,gain,1\n",
                timeout=PATIENCE,
            )
            assert added.status_code == 200, added.text
            assert httpx.get(f"{service}/api/studies/1/forecast", headers=allowed, timeout=PATIENCE).status_code == 200


# ---------------------------------------------------------------------------------------- compose and Kubernetes


def test_the_compose_file(tmp_path: Path) -> None:
    service, database = COMPOSE["services"]["bestarm"], COMPOSE["services"]["database"]
    assert service["read_only"] is True
    assert service["tmpfs"] == ["/tmp"]
    assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
    assert (DEPLOY / service["build"]["context"]).resolve() == ROOT
    assert (ROOT / service["build"]["dockerfile"]).exists()
    # Only this machine reaches it, at the port of the image.
    assert service["ports"] == [f"127.0.0.1:8000:{of_the_image('EXPOSE')[0]}"]
    # Secrets come from the environment, and starting without them is an error.
    said = [each["environment"][name] for each, name in ((service, "BESTARM_TOKEN"), (database, "POSTGRES_PASSWORD"))]
    assert all(re.fullmatch(r"\$\{\w+:\?.+\}", text) for text in said)
    assert service["environment"]["PGPASSWORD"] == database["environment"]["POSTGRES_PASSWORD"]
    user, name = database["environment"]["POSTGRES_USER"], database["environment"]["POSTGRES_DB"]
    assert service["environment"]["BESTARM_DB"] == f"postgresql://{user}@database/{name}"
    assert service["depends_on"] == {"database": {"condition": "service_healthy"}}
    assert set(COMPOSE["volumes"]) == {volume.split(":")[0] for volume in database["volumes"]}
    variables = {**IMAGE_VARIABLES, **service["environment"], "BESTARM_TOKEN": TOKEN}
    assert "@database/studies" in accepted(["serve"], tmp_path, **variables)


def test_the_pods_may_do_little() -> None:
    assert len(list(containers())) == 2
    for pod, container in containers():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert (
            f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" == of_the_image("USER")[0]
        )
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        # Otherwise the service's own address would be taken for the port to listen at.
        assert pod["enableServiceLinks"] is False
        rights = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        assert container["securityContext"] == rights
        writable = {one["mountPath"] for one in container["volumeMounts"] if not one.get("readOnly")}
        assert writable == {"/tmp"}
        assert container["image"] == f"bestarm:{ba.__version__}"
        secrets = {one["valueFrom"]["secretKeyRef"]["name"] for one in container["env"]}
        assert secrets == {"bestarm"}


def test_the_manifest(tmp_path: Path, service: str) -> None:
    by_kind = {one["kind"]: one for one in KUBERNETES}
    (_, serving), (_, migrating) = containers()
    (tmp_path / "bestarm.toml").write_text(by_kind["ConfigMap"]["data"]["bestarm.toml"])
    path = "/etc/bestarm/bestarm.toml"
    assert any(Path(path).is_relative_to(one["mountPath"]) for one in serving["volumeMounts"])
    words = ["bestarm.toml" if word == path else word for word in serving["args"]]
    said = accepted(words, tmp_path, BESTARM_TOKEN=TOKEN, BESTARM_DB="postgresql://me@there/studies")
    [port] = serving["ports"]
    assert f"port = {port['containerPort']}  # bestarm.toml" in said
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        asked = serving[probe]["httpGet"]
        assert httpx.get(service + asked["path"], timeout=PATIENCE).status_code == 200
        assert asked["port"] == port["name"]
    assert by_kind["Service"]["spec"]["ports"][0]["targetPort"] == port["name"]
    labels = by_kind["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for kind in ("Deployment", "PodDisruptionBudget"):
        assert by_kind[kind]["spec"]["selector"]["matchLabels"] == labels
    assert by_kind["Service"]["spec"]["selector"] == labels
    ba.Study.create(
        ba.Plan(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Bernoulli())),
        name="x",
        storage=tmp_path / "a.db",
    )
    assert bestarm(*migrating["args"], cwd=tmp_path, BESTARM_DB="a.db").code == 0


@pytest.mark.parts("kubernetes-validate")
@pytest.mark.parametrize("name", ["kubernetes.yaml", "kubernetes-migrate.yaml"])
def test_the_schema_of_kubernetes(name: str) -> None:
    command = [str(find_program("kubernetes-validate")), "--strict", str(DEPLOY / name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr


# ------------------------------------------------------------------------------------------------------- systemd


def test_the_unit(tmp_path: Path) -> None:
    program, *words = shlex.split(UNIT["Service"]["ExecStart"])
    assert Path(program).name == "bestarm"
    (tmp_path / "bestarm.toml").write_text(FILES["bestarm.toml"])
    said = accepted([word.replace("/etc/bestarm/", "") for word in words], tmp_path, BESTARM_TOKEN="@credentials/token")
    assert 'token = "@credentials/token"  # BESTARM_TOKEN' in said
    assert "port = 8000  # bestarm.toml" in said


@pytest.mark.parts("systemd-analyze")
def test_the_unit_is_one_and_hardened(tmp_path: Path) -> None:
    unit = tmp_path / "bestarm.service"
    # It must be there for the check.
    unit.write_text(FILES["bestarm.service"].replace("/opt/bestarm/bin/bestarm", "/bin/true"))
    analyze = str(find_program("systemd-analyze"))
    verified = subprocess.run(
        [analyze, "verify", "--man=no", unit], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")
    rated = subprocess.run(
        [analyze, "security", "--offline=true", "--no-pager", "--threshold=15", unit],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert rated.returncode == 0, rated.stdout[-500:]
