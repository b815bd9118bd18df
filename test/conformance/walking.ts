/** A walk that is taken on an engine and on the model. */
interface Walk {
  step(): Promise<unknown>
  /** The last steps, in words. */
  readonly trace: readonly string[]
}

/** Takes the steps. Throws with the seed, the step and the last steps when model and engine differ. */
export async function walkOn(
  walk: Walk,
  { title, seed, steps }: { readonly title: string; readonly seed: number; readonly steps: number },
): Promise<void> {
  for (let step = 1; step <= steps; step++) {
    try {
      await walk.step()
    } catch (error) {
      const where = `WALK_SEED=${seed} WALK_STEPS=${steps}\n${walk.trace.join('\n')}`
      const what = error instanceof Error ? error.message : error
      throw new Error(`${title} and the model differ at step ${step}: ${where}\n${what}`, { cause: error })
    }
  }
}
