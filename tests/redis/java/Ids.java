import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** What the programs beside this one share: an endless loop that prints, and a check of some ids. */
interface Ids {
    long incr(String tag);

    /** Takes ids until the process is ended; prints each beside its tag, and each error. */
    static void untilItIsEnded(Ids ids) throws InterruptedException {
        for (;;) {
            StringBuilder lines = new StringBuilder();
            for (int n = 0; n < 30; n++) {
                String tag = "orders-" + n;
                try {
                    lines.append(tag).append(' ').append(ids.incr(tag)).append('\n');
                } catch (RuntimeException error) {
                    lines.append("error ").append(error).append('\n');
                }
            }
            System.out.print(lines);
            Thread.sleep(100);
        }
    }

    static void check(boolean holds, Object what) {
        if (!holds) throw new AssertionError(what);
    }

    /** Fails unless these are this many ids, all distinct. */
    static void checkDistinct(int count, List<?> ids) {
        Set<Object> distinct = new HashSet<>(ids);
        check(distinct.size() == count && !distinct.contains(null), ids);
    }
}
