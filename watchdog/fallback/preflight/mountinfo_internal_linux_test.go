package preflight

import "testing"

func TestMountPoint(t *testing.T) {
	for _, tt := range []struct {
		line, want string
		ok         bool
	}{
		{"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue", "/mnt2", true},
		{`36 35 98:0 / /mnt/my\040disk rw - ext4 /dev/sda1 rw`, "/mnt/my disk", true},
		{`36 35 98:0 / /mnt/back\134slash rw - ext4 /dev/sda1 rw`, `/mnt/back\slash`, true},
		{"36 35 98:0 / /net rw - autofs systemd-1 rw", "", false},
		{"36 35", "", false},
		{"", "", false},
	} {
		if got, ok := mountPoint(tt.line); got != tt.want || ok != tt.ok {
			t.Errorf("%q: %q, %v, want %q", tt.line, got, ok, tt.want)
		}
	}
}
