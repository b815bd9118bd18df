/**
 * Fairness between tenants by stride: each tenant has a pass, the one with the lowest is served next, and being served
 * moves its pass on by what it took, divided by its weight. One that was away comes back at the present, so nobody
 * saves up a right to a burst.
 */

/** A tenant with tasks waiting, or served so lately that its pass matters. */
export interface Tenant {
  readonly name: string
  weight: number
  pass: number
  waiting: number
}

/** The tenants of late, and their weights. */
export class Tenants {
  readonly #tenants = new Map<string, Tenant>()
  readonly #weights = new Map<string, number>()
  /** The pass of whoever was served last: the present. */
  #present = 0

  get size(): number {
    return this.#tenants.size
  }

  setWeight(name: string, weight: number): void {
    if (weight === 1) this.#weights.delete(name)
    else this.#weights.set(name, weight)
    const tenant = this.#tenants.get(name)
    if (tenant !== undefined) tenant.weight = weight
  }

  waitingOf(name: string): number {
    return this.#tenants.get(name)?.waiting ?? 0
  }

  /** A task of this tenant begins to wait. */
  enter(name: string): Tenant {
    let tenant = this.#tenants.get(name)
    if (tenant === undefined) {
      tenant = { name, weight: this.#weights.get(name) ?? 1, pass: this.#present, waiting: 0 }
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
    tenant.pass += cost / tenant.weight
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
