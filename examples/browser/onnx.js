"use strict";

// Computes ONNX files of small networks: what dense layers, normalisers and the choice of an action become. Floats
// are kept in float32, as the file's other runtimes do. Numbers of fields: onnx.proto of https://github.com/onnx/onnx.

// Yields [field, value] of a protocol buffer: a Number, or the bytes of a string, a message or packed numbers.
function* fields(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = view.getUint8(at++);
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return Number(BigInt.asIntN(64, value));
    }
  };
  while (at < bytes.length) {
    const key = varint();
    const kind = key & 7;
    if (kind === 0) yield [key >> 3, varint()];
    else if (kind === 5) yield [key >> 3, view.getFloat32((at += 4) - 4, true)];
    else if (kind === 2) {
      const size = varint();
      if (at + size > bytes.length) throw new Error("no whole ONNX file");
      yield [key >> 3, bytes.subarray(at, (at += size))];
    } else throw new Error("no ONNX file");
  }
}

const all = (message, field) => message.filter(([key]) => key === field).map(([, value]) => value);
const text = (bytes) => new TextDecoder().decode(bytes);
const parts = (message, field) => all(message, field).map((bytes) => [...fields(bytes)]);

function integers(message, field) {
  return all(message, field).flatMap((value) => {
    if (typeof value === "number") return [value];
    const found = []; // packed: varints one after another
    for (let at = 0; at < value.length; ) {
      const end = value.findIndex((byte, i) => i >= at && byte < 128) + 1;
      const [[, each]] = fields(Uint8Array.of(0, ...value.subarray(at, end)));
      found.push(each);
      at = end;
    }
    return found;
  });
}

const FLOAT = 1;

// A tensor: {shape, data}; `data` is a Float32Array, or an Array of whole numbers (int32, int64, bool).
function tensor(message) {
  const [type] = all(message, 2);
  const shape = integers(message, 1);
  const [raw] = all(message, 9);
  if (raw === undefined) {
    const floats = all(message, 4).flatMap((each) =>
      typeof each === "number" ? [each] : [...new Float32Array(each.slice().buffer)]);
    const found = type === FLOAT ? floats : [...integers(message, 5), ...integers(message, 7)];
    return { shape, data: type === FLOAT ? Float32Array.from(found) : found };
  }
  const buffer = raw.slice().buffer;
  if (type === FLOAT) return { shape, data: new Float32Array(buffer) };
  if (type === 6) return { shape, data: [...new Int32Array(buffer)] };
  if (type === 7) return { shape, data: [...new BigInt64Array(buffer)].map(Number) };
  if (type === 9) return { shape, data: [...new Uint8Array(buffer)] };
  throw new Error(`numbers of type ${type} are not known to this page`);
}

const size = (shape) => shape.reduce((product, each) => product * each, 1);
const isFloat = (x) => x.data instanceof Float32Array;
const made = (shape, data, asFloat) => ({ shape, data: asFloat ? Float32Array.from(data) : data });
const axisOf = (axis, rank) => (axis < 0 ? axis + rank : axis);

// The indices of all elements of a shape, in their order; and the place of an element among them.
function indices(shape) {
  return shape.reduce((found, count) => found.flatMap((index) =>
    Array.from({ length: count }, (_, i) => [...index, i])), [[]]);
}
const placeOf = (shape, index) => index.reduce((place, each, i) => place * shape[i] + each, 0);

// Calls `operation` on the elements of two tensors, broadcast as NumPy does.
function broadcast(a, b, operation) {
  const rank = Math.max(a.shape.length, b.shape.length);
  const [left, right] = [a, b].map((x) => [...Array(rank - x.shape.length).fill(1), ...x.shape]);
  const shape = left.map((each, i) => (each === 1 ? right[i] : each));
  const of = (x, from, index) => x.data[placeOf(from, index.map((each, i) => (from[i] === 1 ? 0 : each)))];
  return made(shape, indices(shape).map((index) => operation(of(a, left, index), of(b, right, index))), isFloat(a));
}

// Replaces the vectors along some axes by what `reduce` makes of each.
function reduced(x, axes, keep, reduce, asFloat = isFloat(x)) {
  const gone = (axes ?? [...x.shape.keys()]).map((axis) => axisOf(axis, x.shape.length));
  const kept = x.shape.map((each, i) => (gone.includes(i) ? 1 : each));
  const groups = Array.from({ length: size(kept) }, () => []);
  indices(x.shape).forEach((index, i) =>
    groups[placeOf(kept, index.map((each, axis) => (gone.includes(axis) ? 0 : each)))].push(x.data[i]));
  return made(keep ? kept : x.shape.filter((_, i) => !gone.includes(i)), groups.map(reduce), asFloat);
}

function matmul(a, b, transposed = false) {
  if (a.shape.length !== 2 || b.shape.length !== 2) throw new Error("MatMul of other than matrices");
  const [[rows, inner], columns] = [a.shape, b.shape[transposed ? 0 : 1]];
  const data = new Float32Array(rows * columns);
  for (let i = 0; i < rows; i++)
    for (let j = 0; j < columns; j++) {
      let total = 0;
      for (let k = 0; k < inner; k++)
        total += a.data[i * inner + k] * b.data[transposed ? j * inner + k : k * columns + j];
      data[i * columns + j] = total;
    }
  return { shape: [rows, columns], data };
}

const sum = (values) => values.reduce((total, each) => total + each, 0);
const add = (x, y) => x + y;
const map = (operation) => (_, x) => made(x.shape, x.data.map(operation), isFloat(x));
const pairwise = (operation) => (_, a, b) => broadcast(a, b, operation);
const reduction = (operation) => (node, x, axes) =>
  reduced(x, axes?.data ?? node.axes, node.keepdims ?? 1, operation);
const reshaped = (x, shape) => ({ shape, data: x.data });

// The logarithms of a softmax along an axis.
function logSoftmax(node, x) {
  const axes = [node.axis ?? -1];
  const centred = broadcast(x, reduced(x, axes, 1, (row) => Math.max(...row)), (a, b) => a - b);
  const logarithm = reduced(centred, axes, 1, (row) => Math.log(sum(row.map(Math.exp))));
  return broadcast(centred, logarithm, (a, b) => a - b);
}

// Each operation: (node, ...inputs) -> output; a node has its attributes that are numbers.
const OPERATIONS = {
  Identity: (_, x) => x,
  Add: pairwise(add),
  Sub: pairwise((x, y) => x - y),
  Mul: pairwise((x, y) => x * y),
  Div: pairwise((x, y) => x / y),
  Max: pairwise(Math.max),
  Min: pairwise(Math.min),
  Neg: map((x) => -x),
  Sqrt: map(Math.sqrt),
  Reciprocal: map((x) => 1 / x),
  Tanh: map(Math.tanh),
  Relu: map((x) => Math.max(x, 0)),
  Elu: map((x) => (x > 0 ? x : Math.expm1(x))),
  Sigmoid: map((x) => 1 / (1 + Math.exp(-x))),
  LogSoftmax: logSoftmax,
  Softmax: (node, x) => map(Math.exp)(node, logSoftmax(node, x)),
  MatMul: (_, a, b) => matmul(a, b),
  Gemm: (node, a, b, c) => {
    if (node.transA || (node.alpha ?? 1) !== 1 || (node.beta ?? 1) !== 1) throw new Error("a Gemm of another kind");
    const product = matmul(a, b, Boolean(node.transB));
    return c === undefined ? product : broadcast(product, c, add);
  },
  ReduceSum: reduction(sum),
  ReduceMean: reduction((values) => sum(values) / values.length),
  ArgMax: (node, x) =>
    reduced(x, [node.axis ?? 0], node.keepdims ?? 1, (row) => row.indexOf(Math.max(...row)), false),
  Cast: (node, x) => made(x.shape, node.to === FLOAT ? x.data : Array.from(x.data, Math.trunc), node.to === FLOAT),
  Expand: (_, x, shape) => broadcast(x, { shape: shape.data, data: Array(size(shape.data)) }, (value) => value),
  Reshape: (_, x, wanted) => {
    const shape = wanted.data.map((each, i) => (each === 0 ? x.shape[i] : each));
    return reshaped(x, shape.map((each) => (each === -1 ? size(x.shape) / -size(shape) : each)));
  },
  Squeeze: (_, x, axes) => {
    const gone = axes?.data.map((axis) => axisOf(axis, x.shape.length));
    return reshaped(x, x.shape.filter((each, i) => (gone ? !gone.includes(i) : each !== 1)));
  },
  Unsqueeze: (_, x, axes) => {
    const [shape, rank] = [[...x.shape], x.shape.length + axes.data.length];
    for (const axis of axes.data.map((each) => axisOf(each, rank)).sort((a, b) => a - b)) shape.splice(axis, 0, 1);
    return reshaped(x, shape);
  },
  Transpose: (node, x) => {
    const order = node.perm ?? [...x.shape.keys()].reverse();
    const shape = order.map((axis) => x.shape[axis]);
    const from = (index) => placeOf(x.shape, x.shape.map((_, axis) => index[order.indexOf(axis)]));
    return made(shape, indices(shape).map((index) => x.data[from(index)]), isFloat(x));
  },
  Slice: (_, x, starts, ends, axes, steps) => {
    const [shape, first, stride] = [[...x.shape], x.shape.map(() => 0), x.shape.map(() => 1)];
    (axes?.data ?? [...starts.data.keys()]).forEach((each, i) => {
      const axis = axisOf(each, x.shape.length);
      const within = (place) => Math.min(Math.max(axisOf(place, x.shape[axis]), 0), x.shape[axis]);
      [first[axis], stride[axis]] = [within(starts.data[i]), steps?.data[i] ?? 1];
      if (stride[axis] < 1) throw new Error("a Slice backwards");
      shape[axis] = Math.max(Math.ceil((within(ends.data[i]) - first[axis]) / stride[axis]), 0);
    });
    const from = (index) => placeOf(x.shape, index.map((each, axis) => first[axis] + each * stride[axis]));
    return made(shape, indices(shape).map((index) => x.data[from(index)]), isFloat(x));
  },
};

class OnnxPolicy {
  // `buffer`: an ArrayBuffer of the file. Throws an Error for what is no such file, or has other operations.
  constructor(buffer) {
    const [graph] = parts([...fields(new Uint8Array(buffer))], 7);
    if (graph === undefined) throw new Error("no ONNX file");
    this.weights = new Map(parts(graph, 5).map((each) => [text(all(each, 8)[0]), tensor(each)]));
    this.inputs = parts(graph, 11).map((each) => text(all(each, 1)[0])).filter((name) => !this.weights.has(name));
    this.nodes = parts(graph, 1).map((each) => {
      const node = { type: text(all(each, 4)[0]), inputs: all(each, 1).map(text), output: text(all(each, 2)[0]) };
      for (const attribute of parts(each, 5)) {
        const [float, integer, several] = [all(attribute, 2)[0], all(attribute, 3)[0], integers(attribute, 8)];
        node[text(all(attribute, 1)[0])] = several.length ? several : (integer ?? float);
      }
      return node;
    });
    const unknown = this.nodes.map((node) => node.type).filter((type) => !(type in OPERATIONS));
    if (unknown.length) throw new Error(`this page does not know ${[...new Set(unknown)].join(", ")}`);
  }

  // Returns the output called `name` of inputs by name: tensors {shape, data}.
  run(inputs, name) {
    const known = new Map([...this.weights, ...Object.entries(inputs)]);
    for (const node of this.nodes) {
      const values = node.inputs.map((each) => known.get(each)); // one that is left out is undefined
      known.set(node.output, OPERATIONS[node.type](node, ...values));
    }
    return known.get(name);
  }
}
