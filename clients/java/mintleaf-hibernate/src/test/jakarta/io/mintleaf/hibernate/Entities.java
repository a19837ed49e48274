package io.mintleaf.hibernate;

import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.MappedSuperclass;
import jakarta.persistence.Table;

/** What the tests insert. */
final class Entities {
  private Entities() {}

  /** A row whose key is at a field. */
  @Entity
  @Table(name = "orders")
  public static class Order {
    /** The key. */
    @Id
    @MintleafId("orders")
    public Long id;
    /** What was ordered. */
    public String article;
  }

  /** What all rows with a primitive key have. */
  @MappedSuperclass
  public static class Numbered {
    private long id;

    /** Returns the key. */
    @Id
    @MintleafId("parcels")
    public long getId() {
      return id;
    }

    /** Sets the key. */
    public void setId(long id) {
      this.id = id;
    }
  }

  /** A row whose key is at a getter of a class above. */
  @Entity
  @Table(name = "parcels")
  public static class Parcel extends Numbered {}

  /** A row whose key is a text. */
  @Entity
  @Table(name = "letters")
  public static class Letter {
    /** The key. */
    @Id
    @MintleafId("letters")
    public String id;
  }
}
