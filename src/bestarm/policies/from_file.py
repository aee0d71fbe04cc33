"""A policy from a user's own file, named like `mine.py:Mine`.

Naming a file is running it. So only the command line can name one. Plans and requests cannot.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple

from bestarm.parsing import read_text
from bestarm.policies import all_policies
from bestarm.policies.base import Policy
from bestarm.validation import InvalidInput, parse_name

_ENDING = ".py"


class PolicySource(NamedTuple):
    """A policy as it is sent to another process, which need not have the file."""

    file: str
    text: str
    kind: str


def names_a_file(policy: str) -> bool:
    """Whether this is a file of a policy, not the name of one.

    >>> [names_a_file(text) for text in ("mine.py:Mine", "mine.py", "racing")]
    [True, True, False]
    """
    return policy.partition(":")[0].endswith(_ENDING) or f"{_ENDING}:" in policy


def load_policy(policy: str) -> type[Policy]:
    """The class that `FILE.py:CLASS` names, or `FILE.py` if it has one policy. Raises `InvalidInput` otherwise."""
    path, mark, kind = policy.rpartition(":") if not policy.endswith(_ENDING) else (policy, "", "")
    try:
        text = read_text(path)
    except FileNotFoundError:
        raise InvalidInput("policy", policy, f"there is no file {path}") from None
    except InvalidInput as error:
        raise InvalidInput("policy", policy, str(error)) from None
    except (OSError, ValueError) as error:
        raise InvalidInput("policy", policy, f"{path} cannot be read: {error}") from None
    folder = str(Path(path).resolve().parent)
    if folder not in sys.path:
        # What lies beside the file can be imported, as if it were run. Libraries take precedence.
        sys.path.append(folder)
    try:
        module = _module(path, text)
    except (Exception, SystemExit) as error:  # other people's code may raise anything
        said = str(error).strip().partition("\n")[0]
        reason = f"{path} cannot be loaded: {type(error).__name__}{': ' if said else ''}{said}{_line_of(error, path)}"
        raise InvalidInput("policy", policy, reason) from None
    classes = {name: found for name, found in vars(module).items() if isinstance(found, type)}
    own = [name for name, one in classes.items() if issubclass(one, Policy) and one.__module__ == module.__name__]
    if not mark:
        if len(own) != 1:
            has = f"has the policies {', '.join(own)}" if own else "has no policy"
            raise InvalidInput("policy", policy, f"{path} {has}; name one as {path}:CLASS", own)
        [kind] = own
    found = classes.get(kind)
    if found is None:
        there = f"; it has {', '.join(own)}" if own else ""
        raise InvalidInput("policy", policy, f"{path} has no class {kind}{there}", own)
    return _checked(policy, found)


def _checked(policy: str, found: type[Any]) -> type[Policy]:
    """The class, if it is a policy that can be run and told from all others."""
    kind = found.__name__
    if not issubclass(found, Policy):
        raise InvalidInput("policy", policy, f"{kind} is not a subclass of bestarm.Policy")
    if inspect.isabstract(found):
        raise InvalidInput("policy", policy, f"{kind} has no method propose")
    try:
        name = parse_name(getattr(found, "name", None))
    except ValueError as error:
        raise InvalidInput("policy", policy, f"the name of {kind} {error}; write: name = 'my-policy'") from None
    if name in all_policies():
        raise InvalidInput("policy", policy, f"{kind} is called {name!r}, like another policy; give it another name")
    return found


def _line_of(error: BaseException, path: str) -> str:
    """Where in the file it went wrong."""
    if isinstance(error, SyntaxError):
        return ""  # it says so itself
    line, trace = 0, error.__traceback__
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == path else line
        trace = trace.tb_next
    return f" (line {line})" if line else ""


@functools.cache
def _module(path: str, text: str) -> types.ModuleType:
    """The file as a module, loaded once for each text that it has."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    name = f"bestarm_policy_{digest[:16]}"
    module = types.ModuleType(name)
    module.__file__ = path
    vars(module)["__policy_source__"] = (path, text)
    sys.modules[name] = module  # named tuples and other tools look there
    try:
        exec(compile(text, path, "exec"), vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    return module


def source_of(policy: type[Policy]) -> PolicySource | None:
    """The file that a policy was loaded from; None if it can be imported by name."""
    module = sys.modules.get(policy.__module__)
    found = vars(module).get("__policy_source__") if module is not None else None
    if found is None:
        return None
    file, text = found
    return PolicySource(file, text, policy.__name__)


def sent(policy: type[Policy]) -> type[Policy] | PolicySource:
    """A policy in a form that another process understands."""
    return source_of(policy) or policy


def received(policy: type[Policy] | PolicySource) -> type[Policy]:
    """What was sent."""
    if not isinstance(policy, PolicySource):
        return policy
    found: type[Policy] = getattr(_module(policy.file, policy.text), policy.kind)
    return found


def description_of(policy: type[Policy]) -> dict[str, str]:
    """What tells two policies of the same name apart: where it is from, and its source."""
    source = source_of(policy)
    if source is not None:
        text, file = source.text, Path(source.file).name
    else:
        file = policy.__module__
        try:
            text = inspect.getsource(policy)
        except (OSError, TypeError):
            text = ""  # typed into a terminal
    return {"file": file, "class": policy.__name__, "sha256": hashlib.sha256(text.encode()).hexdigest()}
