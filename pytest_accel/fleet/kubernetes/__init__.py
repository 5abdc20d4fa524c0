"""Manifests and labels for Kubernetes, which the user applies."""
