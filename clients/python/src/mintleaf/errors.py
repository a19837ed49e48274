"""The errors of a call."""

from __future__ import annotations


class MintleafError(Exception):
    """Why a call returned no id. `code` is a stable word for the kind of error."""

    code = "error"


class Refused(MintleafError):
    """A node refused, as every node would: the tag is unknown or frozen, or the token does not allow the call."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(status, code, detail)
        self.status = status
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        head = f"the node refused ({self.status} {self.code})"
        return f"{head}: {self.detail}" if self.detail else head


class Unavailable(MintleafError):
    """No node answered in time. The text names the last endpoint, and what it met. A later call may succeed."""

    code = "unavailable"


class Overloaded(MintleafError):
    """10,000 calls are waiting already. A later call may succeed."""

    code = "overloaded"


class Closed(MintleafError):
    """The client, or the lease, is closed."""

    code = "closed"


class InvalidArgument(MintleafError, ValueError):
    """An argument that every node would refuse. The text names it and its bounds."""

    code = "invalid_argument"


class NotANumber(MintleafError):
    """The tag's ids are texts, which next_text returns. The ids of this answer are wasted."""

    code = "not_a_number"
