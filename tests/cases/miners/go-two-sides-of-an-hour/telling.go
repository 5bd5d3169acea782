package ferrytimes

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func booked(t *testing.T, month time.Month, day, hour, minute int, where *time.Location) {
	file, err := os.OpenFile(os.Getenv("MEMTRIAL_VALUES"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	got := ServiceDay(time.Date(2026, month, day, hour, minute, 7, 0, where))
	fmt.Fprintf(file, "%x %x\n", t.Name(), got.UTC().Format(time.RFC3339Nano))
}

func TestHiddenLastMinute(t *testing.T)  { booked(t, time.March, 10, 4, 29, time.UTC) }
func TestHiddenFirstMinute(t *testing.T) { booked(t, time.March, 10, 4, 30, time.UTC) }
