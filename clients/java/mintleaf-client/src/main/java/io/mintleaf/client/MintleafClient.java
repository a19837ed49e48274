package io.mintleaf.client;

import java.io.IOException;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;

/**
 * Takes ids from a Mintleaf cluster.
 *
 * <p>A client leases ranges of ids ahead and hands them out in process, so an id costs a few nanoseconds
 * as a rule, and an outage of the cluster is not noticed for a while. It goes to another node when one
 * fails. It never hands out an id twice: what a lost answer held is wasted. Ids of a tag rise by trend;
 * between the threads of a process that takes thousands of ids a second they are not in order.
 *
 * <p>A client is safe for use by many threads; one is enough for a process. {@link #close} it when the
 * program ends. It must not be copied with its memory: make it after {@code fork()}, and close it before
 * a checkpoint (CRaC, CRIU). A virtual machine that is cloned while it runs hands out ids twice.
 *
 * <pre>{@code
 * try (MintleafClient client = MintleafClient.builder()
 *     .endpoints("http://a:8080", "http://b:8080", "http://c:8080")
 *     .build()) {
 *   long id = client.nextId("orders");
 * }
 * }</pre>
 */
public final class MintleafClient implements AutoCloseable {
  /** What {@link #readiness} says of a node that is ready. */
  public static final String READY = "ready";

  private static final Request READYZ = Request.get("/readyz");
  private static final int COUNT_MAX = 10_000;
  private static final long SNOWFLAKE_FRESH_NANOS = TimeUnit.SECONDS.toNanos(1);

  private final FlightControl control;
  private final int leaseMax;
  private final Lines lines = new Lines();
  private final Line snowflakes;
  private final Line withoutLease;
  private final Object closing = new Object();
  private final WorkerLeases workerLeases;
  private volatile boolean closed;

  MintleafClient(FlightControl control, int leaseMax, Random random) {
    this.control = control;
    this.leaseMax = leaseMax;
    this.snowflakes = Line.ofSnowflakes(control, leaseMax, SNOWFLAKE_FRESH_NANOS);
    this.withoutLease = Line.withoutLease(control);
    this.workerLeases = new WorkerLeases(control, withoutLease);
    if (control.endpoints.zone() != null) {
      control.threads.execute(new Zones(control, random));
    }
  }

  /**
   * Returns a builder with the defaults and without endpoints.
   *
   * @return an immutable builder
   */
  public static MintleafClientBuilder builder() {
    return MintleafClientBuilder.DEFAULTS;
  }

  /**
   * Returns the next id of a tag.
   *
   * @param tag 1 to 128 characters, none of them a control character
   * @return an id from 1 to 2^63-1 that nobody else has got
   * @throws MintleafException if there is none until the deadline of calls, or a node refuses
   * @throws IllegalArgumentException if the tag is out of bounds
   */
  public long nextId(String tag) {
    Line line = lines.get(tag);
    return line != null ? line.next() : firstId(tag);
  }

  /**
   * Returns the next ids of a tag.
   *
   * @param tag 1 to 128 characters, none of them a control character
   * @param count how many, 1 to 10,000
   * @return exactly {@code count} ids that nobody else has got; in rising order, unless the tag's ids come
   *     in an order that nobody can guess
   * @throws MintleafException if they do not come until the deadline of calls, or a node refuses
   * @throws IllegalArgumentException if the tag or the count is out of bounds
   */
  public long[] nextIds(String tag, int count) {
    if (count < 1 || count > COUNT_MAX) {
      throw new IllegalArgumentException("count is 1 to " + COUNT_MAX);
    }
    IdsCall call = await(call(tag, count));
    long[] ids = call.numbers();
    if (!call.isText()) {
      Arrays.sort(ids);
    }
    return ids;
  }

  /**
   * Returns the next id of a tag as the text that its {@code format} makes of it.
   *
   * @param tag 1 to 128 characters, none of them a control character
   * @return the text, or the decimal number for a tag without a format
   * @throws MintleafException if there is none until the deadline of calls, or a node refuses
   * @throws IllegalArgumentException if the tag is out of bounds
   */
  public String nextText(String tag) {
    Line line = lines.get(tag);
    return line != null && line.isLeased() ? Long.toString(line.next()) : await(call(tag, 1)).text();
  }

  /**
   * Returns the next number of one key of a sequence. Each call asks a node, and nothing is held.
   *
   * @param tag a tag of the kind {@code sequence}
   * @param key 1 to 256 bytes of UTF-8
   * @return a number above every number of this key that was returned before this call began
   * @throws MintleafException if there is none until the deadline of calls, or a node refuses
   * @throws IllegalArgumentException if tag or key are out of bounds
   */
  public long nextId(String tag, String key) {
    String path = "/v1/sequence/" + Names.pathOf(tag, key);
    IdsCall call = new IdsCall(1, control.deadline());
    return await(withoutLease.callAlone(Line.requestOf(path, 1), call)).numbers()[0];
  }

  /**
   * Returns the number of one key of a register: the one that it has, or else the next, without a gap. The same key gets
   * the same number for ever, so a call that failed is made again with the same key.
   *
   * @param tag a tag of the kind {@code register}
   * @param key 1 to 256 bytes of UTF-8
   * @return the number, and whether it is new
   * @throws MintleafException if there is none until the deadline of calls, or a node refuses
   * @throws IllegalArgumentException if tag or key are out of bounds
   */
  public Registration register(String tag, String key) {
    Request request = Request.post("/v1/register/" + Names.pathOf(tag, key), null);
    return await(withoutLease.callAlone(request, new ValueCall<>(control.deadline(), Registration::read))).value();
  }

  /**
   * Leases a worker id for a minute, which renews itself, in the name of this process.
   *
   * @param pool the name of the pool, 1 to 128 characters, none of them a control character
   * @return a lease, to be closed by the caller; closing the client closes it too
   * @throws MintleafException if there is none until the deadline of calls, or a node refuses: {@code not_found} for an
   *     unknown pool, {@code exhausted} while all of its worker ids are leased
   * @throws IllegalArgumentException if the pool is out of bounds
   */
  public WorkerLease leaseWorker(String pool) {
    return leaseWorker(pool, LeaseTerms.SECONDS_DEFAULT, LeaseTerms.thisProcess());
  }

  /**
   * Leases a worker id, which renews itself.
   *
   * @param pool the name of the pool, 1 to 128 characters, none of them a control character
   * @param seconds how long the lease lasts without a renewal, 5 to 3,600
   * @param holder what operators see as its holder, up to 128 characters
   * @return a lease, to be closed by the caller; closing the client closes it too
   * @throws MintleafException if there is none until the deadline of calls, or a node refuses
   * @throws IllegalArgumentException if an argument is out of bounds
   */
  public WorkerLease leaseWorker(String pool, int seconds, String holder) {
    return workerLeases.lease(new LeaseTerms(pool, seconds, holder));
  }

  /**
   * Returns a snowflake id, which shows a time. A node gave it no more than a second ago.
   *
   * @return an id from 1 to 2^63-1 that nobody else has got
   * @throws MintleafException if there is none until the deadline of calls, or a node refuses
   */
  public long nextSnowflake() {
    long id = snowflakes.nextFresh(control.ticker);
    return id != 0 ? id : snowflakes.refill(Thread.currentThread());
  }

  /**
   * Asks nodes whether they are ready, until one says so. Ids that are held are handed out either way.
   *
   * @return whether a node is ready to hand out ids
   */
  public boolean isReady() {
    return readiness().containsValue(READY);
  }

  /**
   * Asks nodes whether they are ready, until one says so.
   *
   * @return by the address of each node that was asked: {@link #READY}, or what is wrong there
   */
  public Map<String, String> readiness() {
    Map<String, String> answers = new LinkedHashMap<>();
    for (Endpoint endpoint : control.endpoints.all()) {
      String answer = closed ? "the client is closed" : readiness(endpoint);
      answers.put(endpoint.toString(), answer);
      if (answer.equals(READY)) {
        break;
      }
    }
    return answers;
  }

  private String readiness(Endpoint endpoint) {
    try {
      int status = control.transport.send(endpoint, READYZ, control.ticker.nanos() + control.attemptNanos).status;
      return status == 200 ? READY : "HTTP " + status;
    } catch (IOException e) {
      return String.valueOf(e.getMessage());
    }
  }

  /**
   * Returns whether the next id of each tag that this client leases is held, so that the program needs no node for it.
   *
   * @return false if a leased tag is used up, or none was ever leased; snowflakes, which are held for a second, do not count
   */
  public boolean isHolding() {
    boolean leased = false;
    for (Line line : lines.all()) {
      if (line.isLeased()) {
        leased = true;
        if (!line.isHolding()) {
          return false;
        }
      }
    }
    return leased;
  }

  /**
   * Returns what this client has done so far.
   *
   * @return counts as of now
   */
  public ClientStats stats() {
    return control.stats.snapshot();
  }

  /**
   * Wastes what is held, ends all calls that wait with {@code closed}, and ends the client's threads and
   * connections. Worker ids are given back first, which takes no longer than one attempt may. A second close does nothing.
   */
  @Override
  public void close() {
    closed = true;
    synchronized (closing) { // a second close waits for the first
      List<Call> giving = workerLeases.end();
      control.endpoints.close();
      lines.forEach(Line::close);
      snowflakes.close();
      withoutLease.close();
      workerLeases.await(giving);
      workerLeases.close();
      control.transport.close();
      control.threads.close();
    }
  }

  FlightControl control() {
    return control;
  }

  private long firstId(String tag) {
    Line line = line(tag);
    return line != null ? line.next() : await(call(tag, 1)).numbers()[0];
  }

  private IdsCall call(String tag, int count) {
    Line line = line(tag);
    long deadline = control.deadline();
    return line != null
        ? line.call(count, deadline)
        : withoutLease.callAlone(Line.requestOf(Line.pathOf(tag), count), new IdsCall(count, deadline));
  }

  private <T extends Call> T await(T call) {
    call.await(control.ticker);
    return call;
  }

  /** Returns the line of a tag, or null if there are as many lines as the client keeps. */
  private Line line(String tag) {
    Line line = lines.get(tag);
    if (line != null) {
      return line;
    }
    Names.checkTag(tag);
    line = lines.getOrMake(tag, name -> Line.ofTag(control, name, leaseMax));
    if (line != null && closed) {
      line.close();
    }
    return line;
  }
}
