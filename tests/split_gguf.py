"""split_gguf.py MODEL OUT TENSORS - the same model by the gguf package, in parts OUT-00001-of-... of so many tensors."""
import sys

import gguf


def main():
    reader = gguf.GGUFReader(sys.argv[1])
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(sys.argv[2] + ".gguf", architecture, split_max_tensors=int(sys.argv[3]))
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        kind = field.types[0]
        writer.add_key_value(name, field.contents(), kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for t in reader.tensors:
        writer.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main()
