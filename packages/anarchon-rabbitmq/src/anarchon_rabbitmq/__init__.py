"""
Keep anarchon's claims in RabbitMQ: one node, or a cluster.
"""

from __future__ import annotations

from anarchon_rabbitmq.backend import RabbitMQBackend

__all__ = ["RabbitMQBackend"]
