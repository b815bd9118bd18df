import type { NodeLoad } from '../../contract/index.ts'
import type { ResolvedNodeOptions } from './node-options.ts'

/** Longer, or longer than a heartbeat, and it goes without the load: what else it says is worth more. */
const maxMeasureMs = 5_000

/** The load, within its bounds; what cannot be measured, or not in time, is not said. */
export async function measureLoad(load: ResolvedNodeOptions['load'], heartbeatMs: number): Promise<NodeLoad> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error('late')), Math.min(maxMeasureMs, heartbeatMs))
  try {
    const { cpu, gpu, memory } = (await Promise.race([load?.(), late])) ?? {}
    return { cpu: fraction(cpu), gpu: fraction(gpu), memory: fraction(memory) }
  } catch {
    return { cpu: null, gpu: null, memory: null }
  } finally {
    clearTimeout(timer)
  }
}

function fraction(value: unknown): number | null {
  return typeof value === 'number' && !Number.isNaN(value) ? Math.min(1, Math.max(0, value)) : null
}
