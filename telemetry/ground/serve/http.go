package serve

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"prefdt/telemetry"
	"prefdt/telemetry/command"
)

//go:embed page
var page embed.FS

// policy is the whole Content-Security-Policy: nothing but what this server sends.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'"

type file struct{ name, kind string }

// files are the page's files by path: they hold no secret and need no cookie.
var files = map[string]file{
	"/":          {"page/index.html", "text/html; charset=utf-8"},
	"/app.js":    {"page/app.js", "text/javascript; charset=utf-8"},
	"/style.css": {"page/style.css", "text/css; charset=utf-8"},
	"/uplot.js":  {"page/uplot.js", "text/javascript; charset=utf-8"},
	"/uplot.css": {"page/uplot.css", "text/css; charset=utf-8"},
	"/icon.svg":  {"page/icon.svg", "image/svg+xml"},
	"/uplot.txt": {"page/uplot.txt", "text/plain; charset=utf-8"},
}

// handler answers browsers. Each request passes, in this order: the host's name, the
// headers that every answer has, where it came from, its method and path, its cookie, its role.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /logout", s.forAll(s.logout))
	if len(s.Fleets) == 0 {
		s.addRoutes(mux, "")
	} else {
		addFiles(mux, "", list, listFiles)
		mux.HandleFunc("GET /fleets", s.forAll(s.showFleets))
	}
	for _, f := range s.Fleets {
		f.addRoutes(mux, "/"+f.Fleet)
	}
	sameOrigin := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(s.hosts, r.Host) {
			http.Error(w, "this server is not "+strconv.QuoteToASCII(r.Host[:min(len(r.Host), 80)])+"; -host permits a name",
				http.StatusMisdirectedRequest)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
		sameOrigin.ServeHTTP(w, r)
	})
}

// addRoutes adds the page of one fleet, below a prefix.
func (s *Server) addRoutes(mux *http.ServeMux, prefix string) {
	addFiles(mux, prefix, page, files)
	for route, h := range map[string]http.HandlerFunc{
		"GET /session": s.forAll(s.showSession), "GET /events": s.forAll(s.stream), "GET /replay": s.forAll(s.showReplay),
		"GET /picture":  s.withCookie(s.showPicture),
		"POST /preview": s.forOperators(s.preview), "POST /command": s.forOperators(s.command), "POST /alive": s.forOperators(s.alive),
		"POST /leave": s.forOperators(s.leave),
	} {
		method, path, _ := strings.Cut(route, " ")
		mux.HandleFunc(method+" "+prefix+path, h)
	}
}

func addFiles(mux *http.ServeMux, prefix string, from embed.FS, files map[string]file) {
	for path, f := range files {
		content, err := from.ReadFile(f.name)
		if err != nil {
			panic(err) // embedded
		}
		if path == "/" {
			path = "/{$}"
		}
		mux.HandleFunc("GET "+prefix+path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", f.kind)
			w.Header().Set("Cache-Control", "no-cache")
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		})
	}
}

// login exchanges a token for a cookie and a secret. The next token is written where the server
// was started: who holds that terminal decides who comes.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	var body struct{ Token string }
	if !readBody(w, r, &body) {
		return
	}
	now := s.Clock()
	t, ok, expired := s.access.take(body.Token, now)
	if ok || expired {
		s.offer(t.operator)
	}
	present := s.access.session(r, now)
	var secret string
	switch {
	case !ok:
		http.Error(w, "this link was used, is older than an hour, or is of an earlier start; the server's terminal shows a new one",
			http.StatusForbidden)
		return
	case present != nil && present.operator != nil && t.operator == nil: // stays one who may command
	default:
		if present != nil {
			s.access.end(present)
		}
		var cookie string
		cookie, secret = s.access.begin(t.operator, now)
		http.SetCookie(w, s.access.newCookie(cookie))
		s.logVisit(r, "login to "+t.operator.role())
	}
	writeJSON(w, map[string]string{"secret": secret})
}

// logout ends the session of a browser, all its pages included.
func (s *Server) logout(w http.ResponseWriter, r *http.Request, session *session) {
	s.access.end(session)
	s.logVisit(r, "logout from "+session.operator.role())
	http.SetCookie(w, s.access.newCookie(""))
	w.WriteHeader(http.StatusNoContent)
}

type sessionHandler func(w http.ResponseWriter, r *http.Request, session *session)

// forAll wants a cookie and its secret.
func (s *Server) forAll(h sessionHandler) http.HandlerFunc {
	return s.withCookie(func(w http.ResponseWriter, r *http.Request, session *session) {
		if !session.bearsSecret(r) {
			http.Error(w, "without the secret of this browser; open a new link that the server's terminal shows", http.StatusForbidden)
			return
		}
		if session.operator != nil {
			markOperator(r.Context())
		}
		h(w, r, session)
	})
}

// withCookie wants a cookie, and no page of another origin: CrossOriginProtection is for
// methods that change something, and a GET here answers with the fleet's position.
func (s *Server) withCookie(h sessionHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Sec-Fetch-Site") {
		case "", "none", "same-origin":
		default:
			http.Error(w, "for pages of this server only", http.StatusForbidden)
			return
		}
		session := s.access.session(r, s.Clock())
		if session == nil {
			http.Error(w, "open the link that the server's terminal shows", http.StatusUnauthorized)
			return
		}
		h(w, r, session)
	}
}

// forOperators wants a session that may command.
func (s *Server) forOperators(h sessionHandler) http.HandlerFunc {
	return s.forAll(func(w http.ResponseWriter, r *http.Request, session *session) {
		if s.operator(session) == nil {
			http.Error(w, "this page may watch, and not command", http.StatusForbidden)
			return
		}
		h(w, r, session)
	})
}

// operator is who commands this fleet by a session, nil: nobody.
func (s *Server) operator(session *session) *Operator {
	i := slices.IndexFunc(s.Operators, func(o *Operator) bool { return session.operator != nil && o.Name == session.operator.Name })
	if i < 0 {
		return nil
	}
	return s.Operators[i]
}

// readBody reads a request's JSON object, or answers what is wrong with it.
func readBody(w http.ResponseWriter, r *http.Request, v any) bool {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		http.Error(w, "want application/json", http.StatusUnsupportedMediaType)
		return false
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil && d.More() {
		err = errors.New("more than one JSON value")
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		http.Error(w, "larger than a command", http.StatusRequestEntityTooLarge)
	} else if err != nil {
		http.Error(w, "not the JSON of a command: "+telemetry.Printable(err.Error()), http.StatusBadRequest)
	}
	return err == nil
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(encode(v))
}

// welcome is what a page needs to know of the server and of its own session.
type welcome struct {
	Fleet   string      `json:"fleet"`
	Role    string      `json:"role"`
	Name    string      `json:"name"`
	AreaM   [2]float64  `json:"area_m"`
	StaleMS int64       `json:"stale_ms"`
	Picture *[4]float64 `json:"picture,omitempty"`
	Listed  bool        `json:"listed"` // a list of fleets is one level up
	Signed  bool        `json:"signed"` // answers and statuses are verified by the leader's key
}

func (s *Server) welcome(session *session) *welcome {
	x := &welcome{Fleet: s.Fleet, Role: "watch", AreaM: s.AreaM, StaleMS: s.StaleAfter.Milliseconds(), Listed: s.listed,
		Signed: s.Leader != nil}
	if o := s.operator(session); o != nil {
		x.Role, x.Name = "command", o.Name
	}
	if s.Replay != nil {
		x.Role = "replay"
	}
	if s.Picture != nil {
		x.Picture = &s.Picture.AtM
	}
	return x
}

func (s *Server) showSession(w http.ResponseWriter, _ *http.Request, session *session) {
	writeJSON(w, s.welcome(session))
}

func (s *Server) showPicture(w http.ResponseWriter, r *http.Request, _ *session) {
	if s.Picture == nil {
		http.NotFound(w, r)
		return
	}
	writeLarge(w, s.Picture.Type, s.Picture.Image)
}

func writeLarge(w http.ResponseWriter, kind string, content []byte) {
	w.Header().Set("Content-Type", kind)
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(fileStall))
	w.Write(content)
}

// stream sends events until the page or the server goes: at once all that is known, then
// each change, and once a second the server's time, by which a page knows data that were
// held up on their way from fresh ones.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, session *session) {
	if s.Replay != nil {
		http.NotFound(w, r) // nothing is live
		return
	}
	ctx, end := context.WithCancel(r.Context())
	defer end()
	place := &eventStream{s.Fleet, end}
	if !s.access.openStream(session, place) {
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer s.access.closeStream(session, place)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Time{})
	seconds := time.NewTicker(time.Second)
	defer seconds.Stop()
	gap := time.NewTimer(0)
	defer gap.Stop()
	var at cursor
	first := s.welcome(session)
	for {
		now := s.Clock()
		e, changed, closed := s.state.next(&at, now)
		if closed || s.access.session(r, now) != session { // what the cookie may no more do, its page shows no more
			return
		}
		e.Welcome, first = first, nil
		control.SetWriteDeadline(time.Now().Add(stallAfter)) // the socket's, not the fleet's time
		if _, err := w.Write(slices.Concat([]byte("data: "), encode(e), []byte("\n\n"))); err != nil {
			return
		}
		if control.Flush() != nil {
			return
		}
		gap.Reset(minStreamGap)
		select {
		case <-gap.C:
			select {
			case <-changed:
			case <-seconds.C:
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			if s.access.session(r, s.Clock()) == session { // another page has its place
				io.WriteString(w, "data: {\"replaced\":true}\n\n")
			}
			return
		}
	}
}

// alive is a sign of life of a page that somebody can see. It is the only thing that makes a
// heartbeat: no timer here speaks for a crew that has left.
func (s *Server) alive(w http.ResponseWriter, r *http.Request, session *session) {
	if !s.access.watched(session, s.Fleet) {
		http.Error(w, "a page without its event stream does not watch", http.StatusConflict)
		return
	}
	if s.state.blind(s.Clock()) {
		http.Error(w, "who does not see the fleet does not watch it", http.StatusConflict)
		return
	}
	s.beat(s.operator(session), false)
	w.WriteHeader(http.StatusNoContent)
}

// leave withdraws the station, as the end of ground watch does.
func (s *Server) leave(w http.ResponseWriter, r *http.Request, session *session) {
	s.beat(s.operator(session), true)
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) beat(o *Operator, leaving bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	now := s.Clock()
	if !leaving && now.Sub(o.beat) < beatGap {
		return // another page of the same operator
	}
	o.beat = now
	if leaving {
		o.beat = time.Time{}
	}
	o.Heartbeat(leaving)
}

// command sends a command. What became of it is told to every page by its stream, and this
// request does not wait for it: a browser has few connections, and STOP must find one.
func (s *Server) command(w http.ResponseWriter, r *http.Request, session *session) {
	var q request
	if !readBody(w, r, &q) {
		return
	}
	operator := s.operator(session)
	a := answer{ID: q.ID, By: operator.Name}
	if s := s.state.latest(); s != nil {
		a.Mission = s.Mission
	}
	finish := func(text string) {
		a.AtMS, a.Text = s.state.ms(s.Clock()), telemetry.Printable(text)
		s.state.addAnswer(a)
	}
	refuse := func(code int, text string) {
		finish("not sent: " + text)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		w.Write(encode(a))
	}
	if age := time.Duration(s.state.ms(s.Clock())-q.AtMS) * time.Millisecond; age.Abs() > sendLimit {
		refuse(http.StatusConflict, fmt.Sprintf("it was given %v ago, and no command is sent when older than %v",
			age.Round(100*time.Millisecond), sendLimit))
		return
	}
	status := s.state.latest()
	meant, err := q.command(status)
	if err != nil {
		refuse(http.StatusUnprocessableEntity, err.Error())
		return
	}
	if err := q.checkReplaced(status); err != nil {
		refuse(http.StatusConflict, err.Error())
		return
	}
	leave, ok := operator.reserve(meant)
	if !ok {
		refuse(http.StatusTooManyRequests, "other commands wait for their answers")
		return
	}
	s.done.Go(func() { // a page that goes meanwhile does not take back what was sent
		defer leave()
		ctx, cancel := context.WithTimeout(s.ctx, sendLimit)
		defer cancel()
		ack, err := operator.Send(ctx, meant, q.mayBeBelowFloor())
		a.Accepted = err == nil && ack.Accepted
		if err != nil {
			finish(fmt.Sprintf("%s: %v", meant, err))
			return
		}
		finish(meant.Answer(ack, status) + " " + command.Origin(ack))
	})
	w.WriteHeader(http.StatusAccepted)
}

// preview answers what a command would do, in words, and sends nothing.
func (s *Server) preview(w http.ResponseWriter, r *http.Request, _ *session) {
	var q request
	if !readBody(w, r, &q) {
		return
	}
	status := s.state.latest()
	meant, err := q.command(status)
	if err != nil {
		writeJSON(w, map[string]any{"ok": false, "text": telemetry.Printable(err.Error())})
		return
	}
	var replaces *float64
	if status != nil {
		replaces = status.BudgetJ
	}
	text := meant.Consequence(status)
	switch why := meant.Refused(status); {
	case why == "":
	case meant.Mission != nil && len(meant.Mission.Aircraft) > 0: // it may hold for others than those
		text += " But: " + why + "."
	default:
		text = "Refused: " + why + "."
	}
	writeJSON(w, map[string]any{"ok": true, "text": pageWords.Replace(text), "replaces_j": replaces})
}
