import assert from 'node:assert/strict'

/**
 * Tells a story that must come to a certain point before a span is over: with a short span first, and with longer ones
 * when the machine, or its disk, stood still meanwhile. The story answers nothing when it came too late; what is wrong
 * however much time there is fails with the longest as well.
 */
export async function inGrowingSpans<Answer>(
  what: string,
  story: (spanMs: number) => Promise<Answer | undefined>,
): Promise<Answer> {
  for (const spanMs of [60, 240, 960, 3_840]) {
    const answer = await story(spanMs)
    if (answer !== undefined) return answer
  }
  assert.fail(`${what}, within each of its spans`)
}
