"""A third-party package, as pip would leave it in a folder."""

from __future__ import annotations

from pathlib import Path


def install(folder: Path, entry_points: str, *, name: str = "somebody-else", **modules: str) -> None:
    """Put a package of that name with these entry points into `folder`, and modules with these sources."""
    about = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(entry_points, encoding="utf-8")
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(source, encoding="utf-8")
