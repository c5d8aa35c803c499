// SPDX-License-Identifier: Apache-2.0

//go:build linux

package serve

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// chromium is a page in a real browser, to which we speak its DevTools protocol through a
// pipe.
type chromium struct {
	*testing.T
	in      *os.File
	session string

	mu      sync.Mutex
	last    int
	answers map[int]chan json.RawMessage
	errors  []string // what the page's console has said
}

// needBrowser returns the program of the browser.
func needBrowser(t *testing.T) string {
	t.Helper()
	exe := os.Getenv("PAWL_BROWSER")
	if exe == "" {
		t.Skip("make browser runs this: it needs chromium")
	}
	return exe
}

// browse opens url in the browser of $PAWL_BROWSER.
func browse(t *testing.T, url string) *chromium {
	t.Helper()
	exe := needBrowser(t)
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe",
		"--disable-background-networking", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	c := &chromium{T: t, in: in, answers: map[int]chan json.RawMessage{}}
	done := make(chan struct{})
	go func() { defer close(done); c.read(out) }()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		in.Close()
		<-done
	})
	var target struct{ TargetID string }
	c.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	c.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	c.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		c.call(domain+".enable", nil, nil)
	}
	c.call("Page.navigate", map[string]any{"url": url}, nil)
	return c
}

// read takes what the browser says until it has ended.
func (c *chromium) read(out *os.File) {
	defer out.Close()
	for r := bufio.NewReader(out); ; {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			ID     int
			Result json.RawMessage
			Error  json.RawMessage
			Method string
			Params json.RawMessage
		}
		if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
			c.Errorf("%v: %s", err, text)
			return
		}
		c.mu.Lock()
		switch {
		case m.Error != nil:
			c.errors = append(c.errors, string(m.Error))
			close(c.answers[m.ID])
		case m.ID != 0:
			c.answers[m.ID] <- m.Result
		case m.Method == "Runtime.exceptionThrown", m.Method == "Log.entryAdded", m.Method == "Runtime.consoleAPICalled", m.Method == "Page.javascriptDialogOpening":
			c.errors = append(c.errors, m.Method+string(m.Params))
		}
		c.mu.Unlock()
	}
}

// call calls a method of the protocol.
func (c *chromium) call(method string, params map[string]any, result any) {
	c.Helper()
	c.mu.Lock()
	c.last++
	id, answer := c.last, make(chan json.RawMessage, 1)
	c.answers[id] = answer
	c.mu.Unlock()
	m := map[string]any{"id": id, "method": method, "params": params}
	if params == nil {
		delete(m, "params")
	}
	if c.session != "" {
		m["sessionId"] = c.session
	}
	data, err := json.Marshal(m)
	if err == nil {
		_, err = c.in.Write(append(data, 0))
	}
	if err != nil {
		c.Fatal(err)
	}
	select {
	case got := <-answer:
		if result == nil {
			return
		}
		if err := json.Unmarshal(got, result); err != nil {
			c.Fatalf("%s: %v: %s; %q", method, err, got, c.said())
		}
	case <-time.After(time.Minute):
		c.Fatalf("%s: no answer", method)
	}
}

func (c *chromium) said() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	said := c.errors
	c.errors = nil
	return said
}

// eval returns the value of an expression in the page, as text.
func (c *chromium) eval(expression string) string {
	c.Helper()
	var got struct{ Result struct{ Value any } }
	c.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true}, &got)
	return fmt.Sprint(got.Result.Value)
}

// until waits until an expression has a value, and returns how long that took.
func (c *chromium) until(expression, want string) time.Duration {
	c.Helper()
	began := time.Now()
	for got := ""; ; time.Sleep(20 * time.Millisecond) {
		if got = c.eval(expression); got == want {
			return time.Since(began)
		}
		if time.Since(began) > 30*time.Second {
			c.Fatalf("%s is %q; want %q; the console says %q", expression, got, want, c.said())
		}
	}
}

// key presses a key.
func (c *chromium) key(key string, code int) {
	text := ""
	if key == "Enter" {
		text = "\r"
	}
	for _, kind := range []string{"keyDown", "keyUp"} {
		c.call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text}, nil)
		text = ""
	}
}

// look sets the width and the colours of the screen.
func (c *chromium) look(width, height int, colours string) {
	c.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	c.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]any{{"name": "prefers-color-scheme", "value": colours}}}, nil)
}

// shoot writes a picture of the page, if $PAWL_PICTURES names a folder.
func (c *chromium) shoot(name string, full bool) {
	c.Helper()
	dir := os.Getenv("PAWL_PICTURES")
	if dir == "" {
		return
	}
	var got struct{ Data string }
	c.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": full}, &got)
	data, err := base64.StdEncoding.DecodeString(got.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644)
	}
	if err != nil {
		c.Fatal(err)
	}
}
