"""A Django model whose keys are Mintleaf ids, also for `bulk_create`.

MINTLEAF_URL=http://127.0.0.1:8080 python django_default.py
"""

import os

import django
from django.conf import settings

import mintleaf

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("DATABASE", ":memory:")}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()

from django.db import connection, models  # noqa: E402

# One client for the process. Workers that Gunicorn or Celery forks begin with nothing held.
ids = mintleaf.Client(os.environ.get("MINTLEAF_URL", "http://127.0.0.1:8080").split(","))


def order_id() -> int:
    return ids.next_id("orders")


class Order(models.Model):
    id = models.BigIntegerField(primary_key=True, default=order_id)
    item = models.CharField(max_length=100)

    class Meta:
        app_label = "shop"


if __name__ == "__main__":
    with connection.schema_editor() as editor:
        editor.create_model(Order)
    Order.objects.create(item="tea")
    Order.objects.bulk_create([Order(item=f"cup {number}") for number in range(10_000)])
    keys = set(Order.objects.values_list("id", flat=True))
    print(f"{len(keys)} orders, {ids.stats()['requests']} requests")
    ids.close()
