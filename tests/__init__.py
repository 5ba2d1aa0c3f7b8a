"""Tests of cotenant."""
