FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# The commit: .git is not here to tell.
ARG REVISION
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-X purser/cmd/purser/buildinfo.Stamped=$REVISION" -o /purser ./cmd/purser && mkdir /data

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /purser /purser
COPY --from=build --chown=nonroot:nonroot /data /data
ENV PURSER_DATA_DIR=/data \
    PURSER_HTTP_ADDR=0.0.0.0:8080 \
    PURSER_AUTHORIZER_ADDR=0.0.0.0:8081 \
    PURSER_ADMIN_ADDR=0.0.0.0:8082 \
    PURSER_BASE_URL=http://localhost:8080
VOLUME /data
EXPOSE 8080 8081 8082
ENTRYPOINT ["/purser"]
CMD ["serve"]
