/**
 * The messages of one packet, put together in one piece of memory: through the driver each would be a buffer, a write and
 * an entry of the socket's list of its own, and a transaction of one statement sends fourteen of them.
 */
export class PacketBytes {
  #bytes = Buffer.allocUnsafe(16_384)
  #length = 0

  /** Lets the server forget a statement. */
  close(name: string): void {
    const from = this.#begin(letters.close)
    this.#byte(letters.statement)
    this.#text(name)
    this.#end(from)
  }

  parse(name: string, text: string): void {
    const from = this.#begin(letters.parse)
    this.#text(name)
    this.#text(text)
    // The server finds out the types of the parameters.
    this.#int16(0)
    this.#end(from)
  }

  /** The unnamed portal, with these values for a statement. Text in all columns of the answer. */
  bind(statement: string, values: readonly Value[]): void {
    const from = this.#begin(letters.bind)
    this.#byte(0)
    this.#text(statement)
    this.#int16(values.length)
    for (const value of values) this.#int16(typeof value === 'string' || value === null ? 0 : 1)
    this.#int16(values.length)
    for (const value of values) this.#value(value)
    this.#int16(1)
    this.#int16(0)
    this.#end(from)
  }

  /** What the unnamed portal answers with. */
  describe(): void {
    this.#constant(describeBytes)
  }

  execute(): void {
    this.#constant(executeBytes)
  }

  /** Ends the packet: all of it as it goes out. Afterwards this is empty. */
  sync(): Buffer {
    this.#constant(syncBytes)
    const packet = Buffer.allocUnsafe(this.#length)
    this.#bytes.copy(packet, 0, 0, this.#length)
    this.clear()
    return packet
  }

  /** Forgets what was put in. */
  clear(): void {
    this.#length = 0
    if (this.#bytes.length > mostKeptBytes) this.#bytes = Buffer.allocUnsafe(16_384)
  }

  #begin(letter: number): number {
    this.#byte(letter)
    this.#room(4)
    this.#length += 4
    return this.#length - 4
  }

  /** A message's length counts itself, and not the letter before it. */
  #end(from: number): void {
    this.#bytes.writeInt32BE(this.#length - from, from)
  }

  #constant(bytes: Buffer): void {
    this.#room(bytes.length)
    this.#bytes.set(bytes, this.#length)
    this.#length += bytes.length
  }

  #value(value: Value): void {
    this.#room(4)
    const at = this.#length
    this.#length += 4
    if (value === null) {
      this.#bytes.writeInt32BE(-1, at)
      return
    }
    if (typeof value === 'string') this.#characters(value)
    else this.#constant(value)
    this.#bytes.writeInt32BE(this.#length - at - 4, at)
  }

  /** With a zero behind it. */
  #text(text: string): void {
    this.#characters(text)
    this.#byte(0)
  }

  #characters(text: string): void {
    // A character of a string has at most three bytes; counting them first would cost a call for each.
    this.#room(text.length * 3)
    this.#length += this.#bytes.write(text, this.#length)
  }

  #int16(number: number): void {
    this.#room(2)
    this.#length = this.#bytes.writeUInt16BE(number, this.#length)
  }

  #byte(byte: number): void {
    this.#room(1)
    this.#bytes[this.#length++] = byte
  }

  #room(bytes: number): void {
    if (this.#length + bytes <= this.#bytes.length) return
    const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#length + bytes))
    this.#bytes.copy(larger, 0, 0, this.#length)
    this.#bytes = larger
  }
}

/** A value as it goes out: text, bytes, or nothing. */
export type Value = string | Buffer | null

/** One large payload must not be kept for good. */
const mostKeptBytes = 262_144

const letters = { bind: 66, close: 67, parse: 80, statement: 83 } as const
const describeBytes = Buffer.from([68, 0, 0, 0, 6, 80, 0])
const executeBytes = Buffer.from([69, 0, 0, 0, 9, 0, 0, 0, 0, 0])
const syncBytes = Buffer.from([83, 0, 0, 0, 4])
