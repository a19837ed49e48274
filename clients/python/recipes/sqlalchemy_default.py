"""A SQLAlchemy model whose keys are Mintleaf ids, also for inserts of many rows.

MINTLEAF_URL=http://127.0.0.1:8080 python sqlalchemy_default.py
"""

import os

from sqlalchemy import BigInteger, String, create_engine, insert, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import mintleaf

# One client for the process. Workers that Gunicorn or Celery forks begin with nothing held.
ids = mintleaf.Client(os.environ.get("MINTLEAF_URL", "http://127.0.0.1:8080").split(","))


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, default=lambda: ids.next_id("orders"))
    item: Mapped[str] = mapped_column(String(100))


if __name__ == "__main__":
    engine = create_engine(os.environ.get("DATABASE", "sqlite://"))
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(Order(item="tea"))
        session.execute(insert(Order), [{"item": f"cup {number}"} for number in range(10_000)])
        session.commit()
        keys = set(session.scalars(select(Order.id)))
    print(f"{len(keys)} orders, {ids.stats()['requests']} requests")
    ids.close()
