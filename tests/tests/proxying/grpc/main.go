// An application that speaks HTTP/2 and gRPC, and a client of it, for tests of the proxy.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func main() {
	switch os.Args[1] {
	case "grpc":
		serveGrpc(listen(os.Args[2]), os.Args[3:])
	case "http":
		serveHttp(listen(os.Args[2]), os.Args[3:])
	case "ask":
		ask(os.Args[2], os.Args[3])
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func listen(port string) net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	check(err)
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	return listener
}

// What answers: each method takes and gives texts.
var service = grpc.ServiceDesc{
	ServiceName: "test.Echo",
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "Unary", Handler: unary}},
	Streams: []grpc.StreamDesc{
		{StreamName: "Down", Handler: down, ServerStreams: true},
		{StreamName: "Up", Handler: up, ClientStreams: true},
		{StreamName: "Both", Handler: both, ServerStreams: true, ClientStreams: true},
	},
}

func unary(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	text := new(wrapperspb.StringValue)
	if err := decode(text); err != nil {
		return nil, err
	}
	grpc.SetTrailer(ctx, metadata.Pairs("x-length", fmt.Sprint(len(text.Value))))
	if text.Value == "fails" {
		return nil, status.Error(codes.NotFound, "there is none")
	}
	return text, nil
}

func down(_ any, stream grpc.ServerStream) error {
	text := new(wrapperspb.StringValue)
	if err := stream.RecvMsg(text); err != nil {
		return err
	}
	for number := range 1000 {
		if err := stream.SendMsg(wrapperspb.String(fmt.Sprint(text.Value, number))); err != nil {
			return err
		}
	}
	return nil
}

func up(_ any, stream grpc.ServerStream) error {
	all := ""
	for {
		text := new(wrapperspb.StringValue)
		switch err := stream.RecvMsg(text); err {
		case nil:
			all += text.Value
		case io.EOF:
			return stream.SendMsg(wrapperspb.String(all))
		default:
			return err
		}
	}
}

func both(_ any, stream grpc.ServerStream) error {
	for {
		text := new(wrapperspb.StringValue)
		switch err := stream.RecvMsg(text); err {
		case nil:
			if err := stream.SendMsg(text); err != nil {
				return err
			}
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}

func serveGrpc(listener net.Listener, files []string) {
	options := []grpc.ServerOption{grpc.MaxConcurrentStreams(20)}
	if len(files) == 2 {
		pair, err := tls.LoadX509KeyPair(files[0], files[1])
		check(err)
		options = append(options, grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	}
	server := grpc.NewServer(options...)
	server.RegisterService(&service, nil)
	check(server.Serve(listener))
}

// Counts its connections, and says what it was asked, over HTTP/2 alone.
func serveHttp(listener net.Listener, files []string) {
	var mutex sync.Mutex
	connections := map[string]bool{}
	handler := http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		mutex.Lock()
		connections[request.RemoteAddr] = true
		count := len(connections)
		mutex.Unlock()
		switch request.URL.Path {
		case "/early":
			writer.WriteHeader(http.StatusRequestEntityTooLarge)
			fmt.Fprint(writer, "too large")
			return
		case "/echo":
			http.NewResponseController(writer).EnableFullDuplex()
			writer.WriteHeader(http.StatusOK)
			writer.(http.Flusher).Flush()
			buffer := make([]byte, 32<<10)
			for {
				count, err := request.Body.Read(buffer)
				writer.Write(buffer[:count])
				writer.(http.Flusher).Flush()
				if err != nil {
					return
				}
			}
		case "/much":
			writer.Write([]byte(strings.Repeat("x", 30_000_000)))
			return
		}
		bytes, _ := io.Copy(io.Discard, request.Body)
		writer.Header().Set("Trailer", "X-Sum")
		fmt.Fprintf(writer, "%s %s %s %s %d bytes, %d connections, %s %v", request.Proto, request.Method, request.Host,
			request.URL, bytes, count, request.Header.Get("X-Forwarded-Proto"), request.Header["Cookie"])
		writer.Header().Set("X-Sum", request.Trailer.Get("X-End"))
	})
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(len(files) != 2)
	protocols.SetHTTP2(len(files) == 2)
	server := http.Server{Handler: handler, Protocols: protocols}
	if len(files) == 2 {
		check(server.ServeTLS(listener, files[0], files[1]))
	}
	check(server.Serve(listener))
}

func ask(address, authority string) {
	credential := insecure.NewCredentials()
	if authority != "" {
		pem, err := os.ReadFile(authority)
		check(err)
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		credential = credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: "localhost"})
	}
	client, err := grpc.NewClient("passthrough:"+address, grpc.WithTransportCredentials(credential))
	check(err)
	ctx := context.Background()
	var all sync.WaitGroup
	for number := range 50 {
		all.Go(func() {
			name := fmt.Sprint("n", number)
			answer, trailer := new(wrapperspb.StringValue), metadata.MD{}
			check(client.Invoke(ctx, "/test.Echo/Unary", wrapperspb.String(name), answer, grpc.Trailer(&trailer)))
			expect(answer.Value, name)
			expect(strings.Join(trailer["x-length"], ","), fmt.Sprint(len(name)))
			asks(ctx, client, name)
		})
	}
	all.Wait()
	long := strings.Repeat("long", 500_000)
	answer := new(wrapperspb.StringValue)
	check(client.Invoke(ctx, "/test.Echo/Unary", wrapperspb.String(long), answer))
	expect(answer.Value, long)
	err = client.Invoke(ctx, "/test.Echo/Unary", wrapperspb.String("fails"), answer)
	expect(fmt.Sprint(status.Code(err), status.Convert(err).Message()), "NotFoundthere is none")
	err = client.Invoke(ctx, "/test.Echo/None", wrapperspb.String("x"), answer)
	expect(status.Code(err).String(), "Unimplemented")
	fmt.Println("right")
}

func expect(got, wanted string) {
	if got != wanted {
		panic(fmt.Sprintf("%.100q is not %.100q", got, wanted))
	}
}

func asks(ctx context.Context, client *grpc.ClientConn, name string) {
	open := func(method string, down, up bool) grpc.ClientStream {
		stream, err := client.NewStream(ctx, &grpc.StreamDesc{ServerStreams: down, ClientStreams: up}, "/test.Echo/"+method)
		check(err)
		return stream
	}
	text := new(wrapperspb.StringValue)
	stream := open("Down", true, false)
	check(stream.SendMsg(wrapperspb.String(name)))
	check(stream.CloseSend())
	for number := range 1000 {
		check(stream.RecvMsg(text))
		expect(text.Value, fmt.Sprint(name, number))
	}
	if err := stream.RecvMsg(text); err != io.EOF {
		panic(err)
	}
	stream = open("Up", false, true)
	for range 100 {
		check(stream.SendMsg(wrapperspb.String(name)))
	}
	check(stream.CloseSend())
	check(stream.RecvMsg(text))
	expect(text.Value, strings.Repeat(name, 100))
	// Each message waits for the answer to the one before.
	stream = open("Both", true, true)
	for number := range 20 {
		message := fmt.Sprint(name, number)
		check(stream.SendMsg(wrapperspb.String(message)))
		check(stream.RecvMsg(text))
		expect(text.Value, message)
	}
	check(stream.CloseSend())
	if err := stream.RecvMsg(text); err != io.EOF {
		panic(err)
	}
}
