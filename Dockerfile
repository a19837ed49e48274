# syntax=docker/dockerfile:1
# An image with nothing in it but the static binary and an empty directory for its data.
#
#   docker build --build-arg MINTLEAF_COMMIT="$(git rev-parse HEAD)" --tag mintleaf .
#
# Of a binary that scripts/package has made, or of the one in an unpacked release, without Rust:
#
#   docker build --build-context build=target/package --tag mintleaf .
#   mkdir -p image/data && cp mintleaf image/ && docker build --build-context build=. --tag mintleaf .

FROM rust:1.95-alpine AS build
# hadolint ignore=DL3018
RUN apk add --no-cache gcc musl-dev
WORKDIR /source
COPY . .
# The commit that `mintleaf --version` names: there is no repository here to ask.
ARG MINTLEAF_COMMIT=""
RUN cargo build --locked --profile packaged --bin mintleaf \
  && mkdir -p /image/data \
  && cp target/packaged/mintleaf /image/mintleaf

FROM scratch
COPY --from=build --chown=0:0 --chmod=0555 /image/mintleaf /mintleaf
# A new volume takes owner and mode from here.
COPY --from=build --chown=65532:65532 --chmod=0700 /image/data /data
USER 65532:65532
VOLUME /data
ENV MINTLEAF_DATA=/data/node
EXPOSE 8080 9080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s CMD ["/mintleaf", "ready"]
ENTRYPOINT ["/mintleaf"]
CMD ["serve"]
