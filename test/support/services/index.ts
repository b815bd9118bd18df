/** Starts the servers that tests need: real ones, on separate ports, ended with the process that started them. */
import { startMariadb } from './mariadb.ts'
import { startPostgres } from './postgres.ts'
import { startRedis } from './redis.ts'
import type { Service, ServiceName, ServiceOptions } from './service.ts'

export { type Service, type ServiceName, type ServiceOptions, serviceNames } from './service.ts'
export { startMariadb, startPostgres, startRedis }

const starters: Record<ServiceName, (options?: ServiceOptions) => Promise<Service>> = {
  postgres: startPostgres,
  mariadb: startMariadb,
  redis: startRedis,
}

/** Several services that started together. */
export interface Services {
  readonly list: readonly Service[]
  [Symbol.asyncDispose](): Promise<void>
}

/**
 * Starts the named services at once and calls `onReady` for each. When one cannot start, the others are ended again,
 * and the error has one line for each failure.
 */
export async function startServices(
  names: readonly ServiceName[],
  onReady: (service: Service, ms: number) => void = () => undefined,
): Promise<Services> {
  const begun = performance.now()
  const results = await Promise.allSettled(
    names.map(async (name) => {
      const service = await starters[name]()
      onReady(service, Math.round(performance.now() - begun))
      return service
    }),
  )
  const list = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  const reasons = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []))
  const disposeAll = async () =>
    void (await Promise.all(list.map((service) => service[Symbol.asyncDispose]())))
  if (reasons.length > 0) {
    await disposeAll()
    throw new Error(reasons.map((reason) => reason?.message ?? `${reason}`).join('\n'))
  }
  return { list, [Symbol.asyncDispose]: disposeAll }
}
