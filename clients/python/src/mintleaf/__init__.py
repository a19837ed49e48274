"""Unique ids from a Mintleaf cluster, leased ahead and handed out in the process."""

from ._client import AsyncClient, Client
from ._wire import Registered
from ._worker import AsyncWorkerLease, AsyncWorkerSnowflakes, WorkerLease, WorkerSnowflakes
from .errors import Closed, InvalidArgument, MintleafError, NotANumber, Overloaded, Refused, Unavailable

__all__ = [
    "AsyncClient",
    "AsyncWorkerLease",
    "AsyncWorkerSnowflakes",
    "Client",
    "Closed",
    "InvalidArgument",
    "MintleafError",
    "NotANumber",
    "Overloaded",
    "Refused",
    "Registered",
    "Unavailable",
    "WorkerLease",
    "WorkerSnowflakes",
]
