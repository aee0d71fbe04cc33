"""Short lists and any feasible arm in studies with items: the same policies, which compare arms item by item.

The best so many arms are not here. Every arm would have to be compared with several others, and its differences be made
anew for each of them at every step.
"""

from __future__ import annotations

from bestarm.kernel.compile import specialized
from bestarm.policies import certify_any, certify_short_list
from bestarm.policies.base import Kernels
from bestarm.policies.certify import new_memory, start, update
from bestarm.policies.certify_any import CertifyAny, weigh_arms
from bestarm.policies.certify_on_items import BY_ITEMS, CertifyOnItems, advance_on_items
from bestarm.policies.certify_short_list import CertifyShortList
from bestarm.policies.goals import new_memory as new_list_memory

_SHORT_LIST = specialized(certify_short_list.propose, "on_items", **BY_ITEMS)
_ANY = specialized(certify_any.propose, "on_items", **BY_ITEMS)


class CertifyShortListOnItems(CertifyShortList, CertifyOnItems):
    """A short list, from measurements on items."""

    kernels = Kernels(new_list_memory, update, _SHORT_LIST, start, large=True)
    interpreted = staticmethod(specialized(advance_on_items, "short_list", update=update, propose=_SHORT_LIST))


class CertifyAnyOnItems(CertifyAny, CertifyOnItems):
    """Any feasible arm, from measurements on items."""

    kernels = Kernels(new_memory, update, _ANY, start, large=True)
    interpreted = staticmethod(specialized(advance_on_items, "any", update=update, propose=_ANY))
    weigh_arms = staticmethod(specialized(weigh_arms, "on_items", **BY_ITEMS))
