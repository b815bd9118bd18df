/**
 * Fairness between tenants by stride: each tenant has a pass, and the tenant with the lowest pass is served next. Being
 * served raises its pass by the slots that its task took. A tenant that comes back starts at the present pass, so it
 * cannot save up a burst.
 */

/** A tenant with tasks waiting, or served so lately that its pass matters. */
export interface Tenant {
  readonly name: string
  pass: number
  waiting: number
}

/** The tenants that have waiting tasks, or were served lately. */
export class Tenants {
  readonly #tenants = new Map<string, Tenant>()
  /** The pass of the tenant that was served last. */
  #present = 0

  get size(): number {
    return this.#tenants.size
  }

  waitingOf(name: string): number {
    return this.#tenants.get(name)?.waiting ?? 0
  }

  /** A task of this tenant begins to wait. */
  enter(name: string): Tenant {
    let tenant = this.#tenants.get(name)
    if (tenant === undefined) {
      tenant = { name, pass: this.#present, waiting: 0 }
      this.#tenants.set(name, tenant)
    }
    if (tenant.waiting === 0) tenant.pass = Math.max(tenant.pass, this.#present)
    tenant.waiting += 1
    return tenant
  }

  /** A task of this tenant waits no more. */
  leave(tenant: Tenant): void {
    tenant.waiting -= 1
    if (tenant.waiting === 0 && tenant.pass <= this.#present) this.#tenants.delete(tenant.name)
  }

  /** A waiting task of this tenant was served, and took so much. */
  serve(tenant: Tenant, cost: number): void {
    this.#present = Math.max(this.#present, tenant.pass)
    tenant.pass += cost
  }

  /** Forgets those whose pass no longer says anything; a few at a time. */
  sweep(limit: number): void {
    let looks = limit
    for (const [name, tenant] of this.#tenants) {
      if (looks === 0) return
      looks -= 1
      this.#tenants.delete(name)
      // The others go to the end, so that the next sweep looks at new ones.
      if (tenant.waiting > 0 || tenant.pass > this.#present) this.#tenants.set(name, tenant)
    }
  }
}
