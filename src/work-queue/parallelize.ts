/** client-go's ParallelizeUntil: divides a known number of pieces among workers. */

/** Works on each piece once. One worker does a chunk, in order. The first failure or an abort ends the work. */
export async function parallelizeUntil(
  workers: number,
  pieces: number,
  doWorkPiece: (piece: number) => unknown,
  options: { readonly chunkSize?: number | undefined; readonly signal?: AbortSignal | undefined } = {},
): Promise<void> {
  if (!(workers >= 1)) throw new RangeError(`parallelizeUntil: workers is ${workers}; it must be 1 or more.`)
  if (!(pieces >= 0)) throw new RangeError(`parallelizeUntil: pieces is ${pieces}; it must be 0 or more.`)
  const { chunkSize: askedSize = 1, signal } = options
  const chunkSize = askedSize >= 1 ? Math.min(Math.floor(askedSize), Math.max(1, pieces)) : 1
  const chunkCount = Math.ceil(pieces / chunkSize)
  let nextChunk = 0
  let begunCount = 0
  let failure: { readonly error: unknown } | undefined

  async function work(): Promise<void> {
    while (nextChunk < chunkCount) {
      const first = chunkSize * nextChunk++
      const end = Math.min(first + chunkSize, pieces)
      for (let piece = first; piece < end; piece++) {
        if (failure || signal?.aborted) return
        begunCount++
        try {
          await doWorkPiece(piece)
        } catch (error) {
          failure ??= { error }
        }
      }
    }
  }

  await Promise.all(Array.from({ length: Math.min(workers, chunkCount) }, work))
  if (failure) throw (failure as { readonly error: unknown }).error
  if (begunCount < pieces) throw signal?.reason
}
