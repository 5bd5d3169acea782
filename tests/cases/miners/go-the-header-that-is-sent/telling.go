package mux

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
)

func TestHiddenIdComesBack(t *testing.T) {
	file, err := os.OpenFile(os.Getenv("MEMTRIAL_VALUES"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r := NewRouter()
	r.Use(CorrelationMiddleware)
	r.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	req := httptest.NewRequest("GET", "/", nil)
	for name, value := range map[string]string{"Pb-Journey": "abc"} {
		req.Header.Set(name, value)
	}
	rec := httptest.NewRecorder()
	r.ServeHTTP(rec, req)
	fmt.Fprintf(file, "%x %x\n", t.Name(), rec.Header().Get("Pb-Journey"))
}
