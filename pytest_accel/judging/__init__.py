"""What was measured -> verdict -> closing line. Pure: no clock, no file, no device."""
