"""Kubernetes: what runs `train.py` on a cluster. `python -m k8s.generate --help`; docs/kubernetes.md."""
