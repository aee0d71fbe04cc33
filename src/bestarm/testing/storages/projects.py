"""Checks of projects: each study is in one, lists can be limited to some, and a study can be moved."""

from __future__ import annotations

from bestarm.storage.base import Storage
from bestarm.storage.errors import NameTaken
from bestarm.storage.projects import DEFAULT_PROJECT
from bestarm.testing.storages.common import ANN, BOB, LONG, NewStudy, must_refuse
from bestarm.validation import NotFound


def check_studies_are_in_the_default_project(storage: Storage, study: NewStudy) -> None:
    assert study.record.project == storage.project_of(study.key) == DEFAULT_PROJECT
    assert storage.project_of(study.key + 1_000_000) is None
    assert sum(sum(counts) for counts in storage.projects().values()) == len(storage.studies())
    if not storage.keeps_projects:
        with must_refuse("keeps no projects"):
            storage.move(study.key, "lab-a", ANN)


def check_studies_are_made_in_projects(storage: Storage, study: NewStudy) -> None:
    if not storage.keeps_projects:
        return
    projects = {"lab-a π 'quoted' %s": 3, "lab-b": 1}
    for project, count in projects.items():
        for k in range(count):
            made = storage.create_study(f"{study.name} {project} {k}", "{}", 0, project=project)
            assert made.project == storage.project_of(made.key) == project
            assert storage.look(made) == storage.study(made.key) == storage.find_study(made.name) == made
            if not k:
                storage.archive(made.key, ANN)
        assert storage.projects()[project] == (count - 1, 1)
        assert {record.project for record in storage.newest(100, projects=[project])} == {project}
        assert len(storage.newest(100, projects=frozenset([project]), archived="false")) == count - 1
    both = storage.newest(100, projects=[*projects, "no such project"])
    assert [record.project for record in both] == ["lab-b", *3 * ["lab-a π 'quoted' %s"]]
    assert storage.newest(2, projects=projects) == both[:2]
    assert storage.newest(2, before=both[1].key, projects=projects) == both[2:]
    assert storage.newest(100, projects=[]) == []


def check_a_name_is_taken_in_all_projects(storage: Storage, study: NewStudy) -> None:
    """Even by the same request: it may be another caller's, who may not see the study."""
    if not storage.keeps_projects:
        return
    name = f"{study.name} once"
    made = storage.create_study(name, "{}", 0, request="key", project="lab-a")
    assert storage.create_study(name, "{}", 0, request="key", project="lab-a") == made
    for request in ("key", "another"):
        with must_refuse(name, "exists already", kind=NameTaken):
            storage.create_study(name, "{}", 0, request=request, project="lab-b")


def check_a_study_is_moved(storage: Storage, study: NewStudy) -> None:
    """Everyone who has it open notices, and work goes on."""
    if not storage.keeps_projects:
        return
    [first, second] = study.ask_ids(2)
    storage.tell(study.key, first, 1.0, ANN)
    other = study.open_again()
    before = study.found()
    for project in ("lab-a", "lab-a", "lab-b"):
        storage.move(study.key, project, BOB)
        assert other.project_of(study.key) == project
        now = other.look(study.record)
        assert now == other.find_study(study.name) == study.found()
        assert study.found().project == project
    assert before == study.record
    assert study.found().revision > study.record.revision
    storage.renew(study.key, [second], ANN, LONG)
    storage.tell(study.key, second, 2.0, ANN)
    assert study.values() == [1.0, 2.0]
    storage.archive(study.key, ANN)
    storage.move(study.key, DEFAULT_PROJECT, ANN)
    assert study.found().archived is not None
    moves = [(event.holder, event.detail) for event in storage.log(study.key) if event.kind == "moved"]
    assert moves == [
        (BOB, "from the project default to lab-a"),
        (BOB, "from the project lab-a to lab-b"),
        (ANN, "from the project lab-b to default"),
    ]
    with must_refuse("study", "no such study"):
        storage.move(study.key + 1_000_000, "lab-a", ANN)


def check_only_a_study_of_the_project_meant_is_moved_or_deleted(storage: Storage, study: NewStudy) -> None:
    """It may have been moved since the caller's role in its project was looked up."""
    if not storage.keeps_projects:
        return
    storage.move(study.key, "lab-a", ANN)
    before = study.found()
    with must_refuse("study", "no such study in the project 'lab-b'", kind=NotFound):
        storage.move(study.key, "lab-c", BOB, within="lab-b")
    with must_refuse("study", "no such study in the project 'lab-b'", kind=NotFound):
        storage.delete(study.key, BOB, within="lab-b")
    assert study.found() == before
    storage.move(study.key, "lab-b", BOB, within="lab-a")
    storage.archive(study.key, BOB)
    storage.delete(study.key, BOB, within="lab-b")
    assert storage.study(study.key) is None
